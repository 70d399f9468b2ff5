//! What is requested and from whom: addresses, files, the far host, and a first request that shows
//! whether all that works.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fathom_fileio::read_text;
use fathom_http::{Connector, ExchangeError, Url, UrlError, resolve};
use fathom_metric::{ProcedureError, Recorder};
use fathom_record::{Activity, FarHost, Host, system_cause};

use crate::control::Control;
use crate::control_error::ControlError;
use crate::engine::{REDIRECTED, UNASKED};
use crate::figures::Telemetry;
use crate::options::{Load, ServerCache};
use crate::paths::{PATHS_MAX, encoded, expand, shown};
use crate::requests::{Fields, Requests};
use crate::server::{LocalServer, Which};

/// The name of this host in records.
pub const LOOPBACK: &str = "loopback";
/// A late answer would delay the end of a window.
const TELEMETRY_TIMEOUT: Duration = Duration::from_secs(10);
/// Environment variable with the path of the token.
const TOKEN_FILE: &str = "FATHOM_TOKEN_FILE";

pub struct Target {
    pub address: SocketAddr,
    pub requests: Arc<Requests>,
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
    pub fn prepare(load: &Load, recorder: &dyn Recorder) -> Result<Self, ProcedureError> {
        let url = Url::parse(&load.target).map_err(ProcedureError::usage)?;
        let failed = |what: String| ProcedureError::failed(format!("{}: {what}", load.target));
        let address = reach(&url, load.connect_timeout).map_err(|error| {
            let port = url.port;
            failed(format!("connect to port {port}: {}", system_cause(&error, Activity::Other)))
        })?;
        let mut fields = load.header.clone();
        let token = token(load)?;
        let has_token = token.is_some();
        fields.extend(token.map(|token| format!("Authorization: Bearer {token}")));
        let mut control = Control::new(address, &url.authority(), &fields, load.timeout)
            .stopped_by(recorder.stop().flag());
        let mut warnings = Vec::new();
        let Known { host, telemetry, is_ours } =
            Known::ask(&mut control, has_token, &mut warnings).map_err(&failed)?;
        let is_loopback = address.ip().to_canonical().is_loopback();
        if has_token && !is_loopback {
            warnings.push(format!(
                "the token is sent unencrypted to {address}; `ssh -L {port}:127.0.0.1:{port} \
                 {name}` encrypts it: load http://127.0.0.1:{port}/",
                port = url.port,
                name = url.host
            ));
        }
        let files = files(load, &url, is_ours.then_some(&mut control), &mut warnings)?;
        let fields = Fields { host: url.authority(), more: fields, closes: load.fresh };
        let first_bytes = check_first(load, &mut control, &files, &fields)?;
        control.set_timeout(load.timeout.min(TELEMETRY_TIMEOUT));
        let requests = Arc::new(Requests::new(&files, &fields));
        // Of a list only: as a parameter it would make another case.
        let file_bytes = requests.mean_bytes();
        first_bytes.map(|bytes| requests.length(0, bytes));
        let (local, server) = match is_ours {
            true => {
                let text = "--pid: not needed, `fathom serve` reports its own figures";
                warnings.extend(load.pid.is_some().then(|| text.to_owned()));
                (None, "fathom serve".to_owned())
            }
            false => find_local(load, address, &mut warnings).map_err(&failed)?,
        };
        let is_own = is_loopback
            || local.is_some() && load.pid.is_some()
            || host.as_ref().is_some_and(|host| host.identity() == recorder.host().identity());
        let name = host.as_ref().map_or(url.host.clone(), |host| host.name.clone());
        let to = if is_own { LOOPBACK.to_owned() } else { name.clone() };
        let far = host.filter(|_| !is_own).map(|host| FarHost { name, host, clock: None });
        if !is_ours && load.server_cache != ServerCache::AsIs {
            let text = "--server-cache: only `fathom serve` can change its page cache, and this \
                        server is another one";
            return Err(failed(text.to_owned()));
        }
        if !is_ours && load.prove {
            let text = "--prove: only `fathom serve` can add load, and this server is another one";
            return Err(failed(text.to_owned()));
        }
        Ok(Self {
            address,
            is_loopback_path: is_own_address(address),
            file_bytes,
            requests,
            fields,
            contents: None,
            control: is_ours.then_some(control),
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

/// The first address that accepts a connection, which is closed at once.
fn reach(url: &Url, timeout: Duration) -> std::io::Result<SocketAddr> {
    let mut last = std::io::Error::other("no address");
    for to in resolve(&url.host, url.port)? {
        match Connector::default().open(to, timeout, None) {
            Ok(_) => return Ok(to),
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// A connection to an own address comes from that address.
fn is_own_address(address: SocketAddr) -> bool {
    let any: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let local = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    address.ip().is_loopback() || local.is_ok_and(|local| local.ip() == address.ip())
}

impl Target {
    /// Counters of the server, if they are known.
    pub fn telemetry(&mut self) -> Option<Telemetry> {
        match (&mut self.control, &mut self.local) {
            (Some(control), _) => control.telemetry().ok(),
            (None, local) => local.as_mut()?.telemetry(),
        }
    }
}

const UNKNOWN: &str = "not fathom serve: its CPU, disk, memory and page cache are unknown";

/// The processes of a server that is not ours, and what is known of it in words.
fn find_local(
    load: &Load,
    address: SocketAddr,
    warnings: &mut Vec<String>,
) -> Result<(Option<LocalServer>, String), String> {
    let is_own = is_own_address(address);
    if load.pid.is_none() && !is_own {
        return Ok((None, UNKNOWN.to_owned()));
    }
    let find = || -> Result<_, String> {
        // The server has to have it open meanwhile.
        let connection = Connector::default().open(address, load.connect_timeout, None);
        let connection = connection.map_err(|error| std::io::Error::from(error).to_string())?;
        let from = connection.local_addr().map_err(|error| error.to_string())?;
        let which = load.pid.unwrap_or(Which::Auto);
        LocalServer::find(which, (address, is_own), from).map_err(|error| error.to_string())
    };
    match find() {
        Ok((server, more)) => {
            warnings.extend(more);
            let words = server.words();
            Ok((Some(server), words))
        }
        Err(error) if load.pid.is_some() => Err(error),
        Err(error) => Ok((None, format!("{UNKNOWN}: {error}"))),
    }
}

/// What the server says of itself.
struct Known {
    host: Option<Host>,
    telemetry: Telemetry,
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
        ExchangeError::Io(error) => return system_cause(error, Activity::Other).to_string(),
        ExchangeError::TimedOut(_) => " (--timeout): the server stalls, or needs a longer time",
        ExchangeError::Malformed(_) => "; `curl -v` shows all that the server sends",
        _ => "",
    };
    format!("{error}{remedy}")
}

fn token(load: &Load) -> Result<Option<String>, ProcedureError> {
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

type Files = Vec<(String, Option<u64>)>;

/// Encoded paths with the lengths of the files, if known.
fn files(
    load: &Load,
    url: &Url,
    control: Option<&mut Control>,
    warnings: &mut Vec<String>,
) -> Result<Files, ProcedureError> {
    if let Some(urls) = &load.urls {
        let paths = by_option(urls, url)?;
        return Ok(paths.into_iter().map(|path| (path, None)).collect());
    }
    let Some(control) = control.filter(|_| url.path.ends_with('/')) else {
        return Ok(vec![(url.path.clone(), None)]);
    };
    let failed = |what: String| ProcedureError::failed(format!("{}: {what}", load.target));
    let listing =
        control.list().map_err(|error| failed(format!("list files: {}", with_remedy(&error))))?;
    if listing.truncated {
        warnings.push(format!("the server lists only its first {} files", listing.files.len()));
    }
    let listed = listing.files.iter().map(|file| (encoded(&file.path), Some(file.bytes)));
    let mut files: Files = listed.filter(|(path, _)| path.starts_with(&url.path)).collect();
    files.sort_unstable();
    if files.is_empty() {
        let text = "the folder has no files; fill it, for example by `fathom load --make \
                    10x1MiB FOLDER`";
        return Err(failed(text.to_owned()));
    }
    Ok(files)
}

/// Bytes of a file with paths, at most.
const URLS_MAX: u64 = 1 << 30;
/// Bytes of a path, at most: servers accept less.
const PATH_BYTES_MAX: usize = 16 << 10;

/// Paths of a pattern, or the lines of a file.
fn by_option(urls: &str, url: &Url) -> Result<Vec<String>, ProcedureError> {
    let failed =
        |what: &dyn std::fmt::Display| ProcedureError::failed(format!("--urls {urls}: {what}"));
    let is_file = Path::new(urls).is_file();
    if urls.starts_with('/') && !is_file {
        check_path(urls).map_err(|error| ProcedureError::usage(format!("--urls {error}")))?;
        return expand(urls).map_err(ProcedureError::usage);
    }
    let text = read_text(Path::new(urls), URLS_MAX).map_err(|error| failed(&error))?;
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut paths = Vec::new();
    for line in lines {
        check_length(line).map_err(|error| failed(&error))?;
        let path = match line.starts_with('/') {
            true => line.to_owned(),
            false => {
                let cut = |error: UrlError| error.to_string().replace(line, &shown(line));
                let other = Url::parse(line).map_err(|error| failed(&cut(error)))?;
                if (&other.host, other.port) != (&url.host, url.port) {
                    return Err(failed(&format!("{} is on another server", shown(line))));
                }
                other.path
            }
        };
        check_path(&path).map_err(|error| failed(&error))?;
        paths.push(path);
    }
    match paths.len() {
        0 => Err(failed(&"no paths")),
        count if count > PATHS_MAX as usize => Err(failed(&format!("above {PATHS_MAX} paths"))),
        _ => Ok(paths),
    }
}

fn check_path(path: &str) -> Result<(), String> {
    check_length(path)?;
    match path.chars().all(|c| c.is_ascii_graphic() && c != '#') {
        true => Ok(()),
        false => Err(format!("`{}`: expected an encoded path", shown(path))),
    }
}

fn check_length(path: &str) -> Result<(), String> {
    match path.len() {
        ..=PATH_BYTES_MAX => Ok(()),
        length => Err(format!(
            "`{}`: a path of {length} bytes, at most {PATH_BYTES_MAX} are allowed",
            shown(path)
        )),
    }
}

/// Requests the first file once, so that a wrong path or token ends the command at once.
/// Returns the length of a whole file.
fn check_first(
    load: &Load,
    control: &mut Control,
    files: &Files,
    fields: &Fields,
) -> Result<Option<u64>, ProcedureError> {
    let (path, bytes) = &files[0];
    let shown = shown(path);
    let failed = |what: String| {
        ProcedureError::failed(format!("{}: first request, {shown}: {what}", load.target))
    };
    let answer = control.ask("GET", path, 0).map_err(|error| failed(with_remedy(&error)))?;
    match (answer.status, *bytes) {
        (200 | 206, _) if answer.is_coded && !fields.ask_for_coding() => {
            Err(failed(UNASKED.to_owned()))
        }
        (200, Some(expected)) if answer.body_bytes != expected => {
            let got = answer.body_bytes;
            Err(failed(format!("{got} bytes, but the list says {expected}; did the file change?")))
        }
        (200, _) => Ok(Some(answer.body_bytes)),
        (206, _) if fields.ask_for_range() => Ok(None),
        (401 | 403, _) => {
            Err(failed(format!("status {}; name a token file by --token-file", answer.status)))
        }
        (404, _) => Err(failed("status 404; check the path, or name paths by --urls".to_owned())),
        (301 | 302 | 303 | 307 | 308, _) => {
            let to = answer.location.as_ref().map_or(String::new(), |to| format!(": {to}"));
            Err(failed(format!("status {}: {REDIRECTED}{to}", answer.status)))
        }
        (status, _) => Err(failed(format!("status {status}, expected 200"))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

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
