//! What is requested and from whom: addresses, files, the far host, and a first request that shows
//! whether all that works.

mod list;

pub use list::check_pattern;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fathom_fileio::read_text;
use fathom_http::{Connector, ExchangeError, ServerAddress, Tls, Url, resolve};
use fathom_measure::clock::monotonic_raw_ns as now_ns;
use fathom_metric::{ProcedureError, Recorder};
use fathom_record::{Activity, FarHost, Host, SERVER_TOKEN, system_cause};

use crate::control::Control;
use crate::control_error::ControlError;
use crate::engine::UNASKED;
use crate::figures::LoadTelemetry;
use crate::https::remedy;
use crate::message::Message;
use crate::options::{LoadOptions, ServerCache};
use crate::paths::{encoded, shown};
use crate::redirect;
use crate::requests::{Fields, Requests};
use crate::server::{self, LocalServer};
use crate::share::Share;

/// The name of this host in records.
pub const LOOPBACK: &str = "loopback";
/// A late answer would delay the end of a window.
const TELEMETRY_TIMEOUT: Duration = Duration::from_secs(10);
/// Environment variable with the path of the token.
const TOKEN_FILE: &str = "FATHOM_TOKEN_FILE";

pub struct Target {
    pub address: ServerAddress,
    /// Whether and how connections are encrypted.
    pub tls: Option<Tls>,
    /// Version and ciphers of TLS.
    pub tls_words: Option<(&'static str, String)>,
    /// How long the name took to resolve, if it is one.
    pub resolve_ns: Option<u64>,
    pub requests: Arc<Requests>,
    /// The time of the first one.
    pub first_ns: u64,
    /// The URL within which redirects are followed, if they are.
    pub follow: Option<Url>,
    /// What all requests share.
    pub fields: Fields,
    /// Mean length of the files, if known.
    pub file_bytes: Option<u64>,
    /// The control connection, if the server is `fathom serve`.
    pub control: Option<Control>,
    /// Otherwise its processes, if they are on this machine and known.
    pub local: Option<LocalServer>,
    /// The far host, unless it is this one.
    pub far: Option<FarHost>,
    /// Whether packets to the server leave no device: its address is one of this network namespace.
    pub is_loopback_path: bool,
    /// `loopback`, or the name of the host.
    pub to: String,
    /// What is known of the server, in words.
    pub server: String,
    /// Congestion control of the server, if known.
    pub congestion: Option<String>,
    /// What bodies are compared with, if they are.
    pub contents: Option<String>,
    /// Whether the server evicts each file after its response.
    pub is_cold: bool,
    pub warnings: Vec<String>,
}

impl Target {
    /// Connects, lists the files and requests the first one.
    ///
    /// # Errors
    /// If the server is unreachable, has no files, or does not answer the first request.
    pub fn prepare(load: &LoadOptions, recorder: &dyn Recorder) -> Result<Self, ProcedureError> {
        let url = Url::parse(&load.target).map_err(ProcedureError::usage)?;
        let failed = |what: String| ProcedureError::failed(format!("{}: {what}", load.target));
        let tls = load.https.tls_for(&url)?;
        let (address, resolve_ns) = reach(load, &url).map_err(&failed)?;
        let mut fields = load.header.clone();
        fields.extend(load.message.fields()?);
        let token = token(load)?;
        let has_token = token.is_some();
        fields.extend(token.map(|token| format!("Authorization: Bearer {token}")));
        let mut control = Control::new(&address, &url.authority(), &fields, load.timeout)
            .stopped_by(recorder.stop().flag())
            .over(tls.clone());
        let mut warnings = warnings(load, &url, &address, has_token);
        let Known { host, telemetry, is_ours } =
            Known::ask(&mut control, has_token, &mut warnings).map_err(&failed)?;
        let is_loopback = address.is_loopback();
        let (files, weights) = files(load, &url, is_ours.then_some(&mut control), &mut warnings)?;
        let host_field = url.authority();
        let fields =
            Fields { host: host_field, more: fields, closes: load.fresh, ..Fields::default() };
        let asked = Fields { message: load.message.message()?, ..fields.clone() };
        check_follow(load, &asked.message)?;
        check_size(&asked.message, files.len())?;
        let begun_ns = now_ns();
        let first_bytes = check_first(load, &mut control, &files, &asked, &mut warnings)?;
        let first_ns = now_ns() - begun_ns;
        control.set_timeout(load.timeout.min(TELEMETRY_TIMEOUT));
        let requests = Arc::new(Requests::new(&files, &asked).weighted(&weights));
        // Of a list only: as a parameter it would make another case.
        let file_bytes = requests.mean_bytes();
        first_bytes.map(|bytes| requests.length(0, bytes));
        let (local, server) = match is_ours {
            true => (None, server::ours(load.pid.is_some(), tls.is_some(), &mut warnings)),
            false => server::find_server(load.pid, &address, load.connect_timeout, &mut warnings)
                .map_err(&failed)?,
        };
        // In another network namespace of this machine it is a host across a link.
        let is_own = is_loopback
            || local.is_some() && load.pid.is_some()
            || is_ours && server::is_own_address(&address);
        // Of several members one asks the server for its counters. Those of its processes are read
        // by the one beside it.
        let reads = load.share.is_none_or(Share::is_first);
        let other = host.as_ref().filter(|it| it.identity() != recorder.host().identity());
        let name = other.map(|host| host.name.clone()).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| url.host.clone());
        let to = if is_own { LOOPBACK.to_owned() } else { name.clone() };
        let far = host.filter(|_| !is_own).map(|host| FarHost { name, host, clock: None });
        if let Some(text) = needs_ours(load).filter(|_| !is_ours) {
            return Err(failed(format!("{text}, and this server is another one")));
        }
        Ok(Self {
            is_loopback_path: server::is_own_address(&address),
            address,
            tls,
            tls_words: control.tls_words(),
            resolve_ns,
            follow: load.follow.then_some(url),
            file_bytes,
            requests,
            first_ns,
            fields,
            contents: None,
            control: (is_ours && reads).then_some(control),
            local,
            far,
            to,
            server,
            congestion: telemetry.congestion,
            is_cold: telemetry.cold,
            warnings,
        })
    }
}

impl Target {
    /// Whether another server is in between: `fathom serve` speaks no TLS.
    pub fn has_proxy(&self) -> bool {
        self.tls.is_some() && self.control.is_some()
    }
}

/// What is not as safe as it may look.
fn warnings(
    load: &LoadOptions,
    url: &Url,
    address: &ServerAddress,
    has_token: bool,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if load.https.insecure {
        let text = "--insecure: no certificate is verified, whoever answers is the server";
        warnings.push(text.to_owned());
    }
    warnings.extend(load.message.warning());
    if has_token && !address.is_loopback() && !url.is_https {
        warnings.push(format!(
            "the token is sent unencrypted to {address}; `ssh -L {port}:127.0.0.1:{port} \
             {name}` encrypts it: load http://127.0.0.1:{port}/",
            port = url.port,
            name = url.host
        ));
    }
    warnings
}

/// The first address that accepts a connection, which is closed at once, and how long its name took
/// to resolve.
fn reach(load: &LoadOptions, url: &Url) -> Result<(ServerAddress, Option<u64>), String> {
    let begun_ns = now_ns();
    let (found, is_name) = match (&load.unix_socket, &load.resolve) {
        (Some(path), _) => (vec![ServerAddress::Unix(path.clone())], false),
        (None, Some(resolved)) => (vec![resolved.address_of(url)?.into()], false),
        (None, None) => {
            let found = resolve(&url.host, url.port);
            let found = found.map_err(|error| format!("look up {}: {error}", url.host))?;
            let is_name = url.host.parse::<IpAddr>().is_err();
            (found.into_iter().map(ServerAddress::from).collect(), is_name)
        }
    };
    let resolve_ns = is_name.then(|| now_ns() - begun_ns);
    let mut last = std::io::Error::other("no address");
    for to in found {
        match Connector::default().open(&to, load.connect_timeout, None) {
            Ok(_) => return Ok((to, resolve_ns)),
            Err(error) => last = error.into(),
        }
    }
    let what = match &load.unix_socket {
        Some(path) => path.display().to_string(),
        None => format!("port {}", url.port),
    };
    Err(format!("connect to {what}: {}", system_cause(&last, Activity::Other)))
}

/// What only `fathom serve` can do.
fn needs_ours(load: &LoadOptions) -> Option<&'static str> {
    if load.server_cache != ServerCache::AsIs {
        return Some("--server-cache: only `fathom serve` can change its page cache");
    }
    load.prove.then_some("--prove: only `fathom serve` can add load")
}

fn check_follow(load: &LoadOptions, message: &Message) -> Result<(), ProcedureError> {
    let method = &message.method;
    if !load.follow || ["GET", "HEAD"].contains(&method.as_str()) {
        return Ok(());
    }
    let text = format!("--follow: redirects of {method} are not followed, of GET and HEAD");
    Err(ProcedureError::usage(text))
}

impl Target {
    /// Counters of the server, if they are known.
    pub fn telemetry(&mut self) -> Option<LoadTelemetry> {
        match (&mut self.control, &mut self.local) {
            (Some(control), _) => control.telemetry().ok(),
            (None, local) => local.as_mut()?.telemetry(),
        }
    }
}

/// What the server says of itself.
struct Known {
    host: Option<Host>,
    telemetry: LoadTelemetry,
    is_ours: bool,
}

impl Known {
    fn ask(
        control: &mut Control,
        has_token: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Self, String> {
        let mut unavailable = |what: &str, error: &ControlError| {
            warnings.push(format!("{what} of the server are unavailable: {error}"));
        };
        let (host, is_ours) = match control.host() {
            Err(error @ ControlError::Implausible(_)) => {
                unavailable("facts", &error);
                (None, true)
            }
            host => {
                let host = known(host, has_token)?;
                let is_ours = host.is_some();
                (host, is_ours)
            }
        };
        let telemetry = is_ours.then(|| control.telemetry());
        if let Some(Err(error @ ControlError::Implausible(_))) = &telemetry {
            unavailable("figures", error);
        }
        let telemetry = telemetry.and_then(Result::ok).unwrap_or_default();
        Ok(Self { host, telemetry, is_ours })
    }
}

/// `None` if the server does not know the request.
fn known<T>(answer: Result<T, ControlError>, has_token: bool) -> Result<Option<T>, String> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(ControlError::Status(status @ (401 | 403))) if has_token => Err(format!(
            "status {status}: the server has another token; use the token file it was started with"
        )),
        Err(ControlError::Status(status @ (401 | 403))) => Err(format!(
            "status {status}: the server requires a token; name its file by --token-file"
        )),
        Err(ControlError::Exchange(ExchangeError::ClosedInHead)) => Ok(None),
        Err(ControlError::Exchange(error @ ExchangeError::Tls(_))) => {
            Err(format!("{error}{}", remedy(&error)))
        }
        Err(error @ ControlError::Exchange(ExchangeError::Io(_))) => {
            Err(format!("no response: {}", with_remedy(&error)))
        }
        Err(error @ ControlError::Exchange(_)) => Err(with_remedy(&error)),
        Err(_) => Ok(None),
    }
}

/// The words of an error, with what to do.
fn with_remedy(error: &ControlError) -> String {
    let cause = match error {
        ControlError::TooLong(_) => return format!("{error}; name fewer paths by --urls"),
        ControlError::Exchange(cause) => cause,
        _ => return error.to_string(),
    };
    let remedy = match cause {
        ExchangeError::Io(io) => return system_cause(io, Activity::Other).to_string(),
        ExchangeError::TimedOut(_) => " (--timeout): the server stalls, or needs a longer time",
        ExchangeError::Malformed(_) => "; `curl -v` shows all that the server sends",
        ExchangeError::Tls(_) => remedy(cause),
        _ => "",
    };
    format!("{error}{remedy}")
}

/// The token of `--token-file` or the environment.
pub fn token(load: &LoadOptions) -> Result<Option<String>, ProcedureError> {
    // A coordinator chooses the server of a share, and must not get a token of this machine.
    if load.share.is_some() {
        return Ok(std::env::var(SERVER_TOKEN).ok());
    }
    let variable = || std::env::var_os(TOKEN_FILE).map(std::path::PathBuf::from);
    let path = load.token_file.clone().or_else(variable);
    path.map(|path| read_token(&path)).transpose()
}

/// Bytes of a file with a token, at most.
const TOKEN_MAX: u64 = 64 << 10;

/// The token in a file.
pub fn read_token(path: &Path) -> Result<String, ProcedureError> {
    let shown = path.display();
    let text = read_text(path, TOKEN_MAX)
        .map_err(|error| ProcedureError::failed(format!("token file {shown}: {error}")))?;
    let token = text.trim();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    match is_token {
        true => Ok(token.to_owned()),
        false => Err(ProcedureError::failed(format!("token file {shown}: not one line of ASCII"))),
    }
}

type TargetFiles = Vec<(String, Option<u64>)>;

/// Encoded paths with the lengths of the files, if known, and their weights, if they have some.
fn files(
    load: &LoadOptions,
    url: &Url,
    control: Option<&mut Control>,
    warnings: &mut Vec<String>,
) -> Result<(TargetFiles, Vec<u32>), ProcedureError> {
    if let Some(urls) = &load.urls {
        let (paths, weights) = list::by_option(urls, url, load.share.is_none())?;
        return Ok((paths.into_iter().map(|path| (path, None)).collect(), weights));
    }
    let Some(control) = control.filter(|_| url.path.ends_with('/')) else {
        return Ok((vec![(url.path.clone(), None)], Vec::new()));
    };
    let failed = |what: String| ProcedureError::failed(format!("{}: {what}", load.target));
    let listing =
        control.list().map_err(|error| failed(format!("list files: {}", with_remedy(&error))))?;
    if listing.truncated {
        warnings.push(format!("the server lists only its first {} files", listing.files.len()));
    }
    let listed = listing.files.iter().map(|file| (encoded(&file.path), Some(file.bytes)));
    let mut files: TargetFiles = listed.filter(|(path, _)| path.starts_with(&url.path)).collect();
    files.sort_unstable();
    if files.is_empty() {
        let text = "the folder has no files; fill it, for example by `fathom load --make \
                    10x1MiB FOLDER`";
        return Err(failed(text.to_owned()));
    }
    Ok((files, Vec::new()))
}

const UNAUTHORIZED: &str = "status 401; name a token file by --token-file, or give a field by -H";

/// Bytes of the bodies of all requests, at most: each request is kept whole.
const BODIES_MAX: usize = 1 << 30;

fn check_size(message: &Message, paths: usize) -> Result<(), ProcedureError> {
    let length = message.body.len();
    match length.saturating_mul(paths) <= BODIES_MAX {
        true => Ok(()),
        false => Err(ProcedureError::failed(format!(
            "a body of {length} bytes for each of {paths} paths needs more than 1 GiB; use a \
             shorter one (--data, --data-file), or fewer paths (--urls)"
        ))),
    }
}

/// Whether it is a path of the server.
fn is_pattern(urls: &str) -> bool {
    urls.starts_with('/') && !Path::new(urls).is_file()
}

/// Requests the first file once, so that a wrong path or token ends the command at once.
/// Returns the length of a whole file.
fn check_first(
    load: &LoadOptions,
    control: &mut Control,
    files: &TargetFiles,
    fields: &Fields,
    warnings: &mut Vec<String>,
) -> Result<Option<u64>, ProcedureError> {
    let (path, bytes) = &files[0];
    let shown = shown(path);
    let failed = |what: String| {
        ProcedureError::failed(format!("{}: first request, {shown}: {what}", load.target))
    };
    let answer = redirect::first_answer(load, control, path, &fields.message);
    let answer = answer.map_err(|error| failed(with_remedy(&error)))?;
    match (answer.status, *bytes) {
        (200 | 206, _) if answer.is_coded && !fields.ask_for_coding() => {
            Err(failed(UNASKED.to_owned()))
        }
        (200..=299, _) if !fields.message.gets() => Ok(None),
        (200, Some(expected)) if answer.body_bytes != expected => {
            let got = answer.body_bytes;
            Err(failed(format!("{got} bytes, but the list says {expected}; did the file change?")))
        }
        (200, _) => Ok(Some(answer.body_bytes)),
        (206, _) if fields.ask_for_range() => Ok(None),
        (401, _) => Err(failed(UNAUTHORIZED.to_owned())),
        (403, _) => Err(failed(
            "status 403: the server does not give this path; name a file of it, several by --urls, \
             or a token file by --token-file"
                .to_owned(),
        )),
        (404, _) => Err(failed(match &load.urls {
            // What files there are, a coordinator must not learn.
            Some(urls) if load.share.is_none() && is_pattern(urls) => format!(
                "status 404; there is no file {urls} here, so that --urls is a path of the server"
            ),
            _ => "status 404; check the path, or name paths by --urls".to_owned(),
        })),
        (301 | 302 | 303 | 307 | 308, _) => {
            let why = redirect::why(load, answer.location.as_deref());
            Err(failed(format!("status {}: {why}", answer.status)))
        }
        // The server is there, and does not answer all.
        (status @ (429 | 503), _) => {
            warnings.push(format!("first request, {shown}: status {status}: such requests fail"));
            Ok(None)
        }
        (400, _) if !load.target.starts_with("https") => {
            let text = "status 400, expected 200; so answers a server that expects https://, too";
            Err(failed(text.to_owned()))
        }
        (status, _) => Err(failed(format!("status {status}, expected 200"))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// Answers each connection with the next of these bodies, one a request, and closes it.
    fn serve(connections: Vec<Vec<String>>) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let server = std::thread::spawn(move || {
            for bodies in connections {
                let (mut stream, _) = listener.accept().expect("a connection");
                for body in bodies {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let mut byte = [0];
                        stream.read_exact(&mut byte).expect("a request");
                        head.push(byte[0]);
                    }
                    let length = body.len();
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                    stream.write_all((head + &body).as_bytes()).expect("a client");
                }
            }
        });
        (address, server)
    }

    #[test]
    fn kept_connection_that_was_closed_is_opened_once_more() {
        let bodies = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect();
        let (address, server) = serve(vec![bodies(&["a"]), bodies(&["b"])]);
        let mut control = Control::new(address, "localhost", &[], Duration::from_secs(60));
        let mut ask = || control.ask("GET", "/", 9).map(|answer| answer.body);
        assert_eq!(ask().expect("an answer"), b"a");
        assert_eq!(ask().expect("over another connection"), b"b");
        server.join().expect("no panic");
    }

    #[test]
    fn own_requests_say_nothing_of_bodies() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let server = std::thread::spawn(move || {
            [(); 2].map(|()| {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).expect("a request");
                    head.push(byte[0]);
                }
                let answer = b"HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                stream.write_all(answer).expect("a client");
                String::from_utf8(head).expect("ASCII")
            })
        });
        let fields = ["Content-Type: a/b", "X-Key: c"].map(str::to_owned);
        let mut control = Control::new(address, "localhost", &fields, Duration::from_secs(60));
        assert!(matches!(control.host(), Err(ControlError::Status(404))));
        control.ask("GET", "/f", 0).expect("an answer");
        let [own, other] = server.join().expect("no panic");
        assert!(own.contains("X-Key: c") && !own.contains("Content-Type"), "{own}");
        assert!(other.contains("X-Key: c") && other.contains("Content-Type: a/b"), "{other}");
    }

    #[test]
    fn figure_that_cannot_be_is_said_and_not_used() {
        let host = |total_bytes| {
            let memory = fathom_record::host::Memory { total_bytes, ..Default::default() };
            let cpu = fathom_record::host::Cpu { logical: 1, ..Default::default() };
            serde_json::to_string(&Host { memory, cpu, ..Host::default() }).expect("JSON")
        };
        let most = u64::MAX;
        for (host, telemetry, what) in [
            (host(Some(1 << 50)), "{}".to_owned(), "facts of the server|memory"),
            (host(None), format!(r#"{{"cpu_ns":{most}}}"#), "figures of the server|CPU time"),
        ] {
            let (whose, figure) = what.split_once('|').expect("two parts");
            let (address, server) = serve(vec![vec![host, telemetry]]);
            let mut control = Control::new(address, "localhost", &[], Duration::from_secs(60));
            let mut warnings = Vec::new();
            let known = Known::ask(&mut control, false, &mut warnings).expect("an answer");
            assert!(known.is_ours, "its list is used");
            let lead = "the far end's figure is implausible";
            assert_eq!(warnings, [format!("{whose} are unavailable: {lead}: {figure}")]);
            server.join().expect("no panic");
        }
    }
}
