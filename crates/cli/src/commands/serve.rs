//! `fathom serve`: serves a folder until a signal.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fathom_measure::process::reap_adopted;
use fathom_record::shell_word;
use fathom_service::{
    Options, ServerEnding, ServiceError, ServiceLimits, ServiceServer, token_from_file,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::arguments::serve::{Listen, ServeArguments};
use crate::exit::{Status, usage_error};
use crate::interrupt::Interrupt;
use crate::terminal::{self, warn};

/// How long responses may take to finish after a signal.
const GRACE_NS: u64 = 5_000_000_000;

pub(super) fn serve(arguments: &ServeArguments) -> anyhow::Result<Status> {
    let interrupt = Interrupt::listen_then_quit()?;
    let token_file = token_file(arguments.token_file.as_ref());
    let listen = listen(listens(&arguments.listen, arguments.port.as_ref()), token_file.is_some())?;
    let token = token_file.as_deref().map(token_from_file).transpose()?;
    let options = Options {
        folder: arguments.folder.clone(),
        listen,
        token,
        names: arguments.name.clone(),
        cold: arguments.cold,
        congestion: arguments.congestion.clone(),
        threads: arguments.threads.map(usize::from),
        lanes: usize::from(arguments.lanes),
        serial_ns: serial_ns()?,
        panic_in: std::env::var("FATHOM_PANIC").ok(),
        limits: limits(arguments),
        far: Some(fathom_far::ProcessProgram::this().context("find this program")?),
        receive: arguments.receive.as_deref().map(receive_folder).transpose()?,
    };
    // In one line; it ends the service.
    terminal::report_panics("serving ends");
    let server = ServiceServer::start(options)?;
    if let Some(path) = token_file.as_deref().filter(|path| is_below(path, &arguments.folder)) {
        let shown = path.display();
        warn(&format!(
            "token file {shown}: a service of this folder without a token would serve it"
        ));
    }
    let printed = super::print_text(&opening(arguments, &server, token_file.as_deref()))?;
    let most = server.connections_max();
    if let Some(wanted) = arguments.connections.filter(|wanted| *wanted as usize > most) {
        warn(&format!(
            "--connections {wanted}: at most {most} by the limit of open files; raise it (ulimit \
             -n)"
        ));
    }
    let ends = [interrupt.as_fd(), server.panicked()];
    let mut wait = ends.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    // As the first process of a container it adopts processes.
    let tick = (std::process::id() == 1).then_some(Timespec { tv_sec: 1, tv_nsec: 0 });
    while printed == Status::Success && !poll(&mut wait, tick.as_ref()).is_ok_and(|it| it > 0) {
        if tick.is_some() {
            reap_adopted();
        }
    }
    let ending = server.stop(GRACE_NS);
    if ending.cut > 0 {
        let when = if ending.has_panicked { "" } else { " after 5 s" };
        warn(&format!("{} cut off{when}", super::counted(ending.cut, "response")));
    }
    if !ending.waiting.is_empty() {
        let (threads, names) = (ending.waiting.len(), ending.waiting.join(", "));
        let threads = super::counted(threads, "thread");
        let line = "the disk does not respond, or all CPUs are busy";
        warn(&format!("{threads} did not end in 2 s ({names}): {line}"));
    }
    Ok(if ending == ServerEnding::default() { printed } else { Status::Failed })
}

/// The named token file, or that of the environment.
pub(super) fn token_file(named: Option<&PathBuf>) -> Option<PathBuf> {
    let by_environment = std::env::var_os("FATHOM_TOKEN_FILE").filter(|path| !path.is_empty());
    named.cloned().or(by_environment.map(PathBuf::from))
}

/// Those of `--listen`, or the one of `--port`.
pub(super) fn listens<'l>(listen: &'l [Listen], port: Option<&'l Listen>) -> &'l [Listen] {
    port.map_or(listen, std::slice::from_ref)
}

/// The addresses of all `--listen`. Whatever is wrong with them is so on any machine.
pub(super) fn listen(listen: &[Listen], has_token: bool) -> anyhow::Result<Vec<SocketAddr>> {
    let all: Vec<SocketAddr> = listen.iter().flat_map(|listen| listen.0.clone()).collect();
    let is_exposed = |one: &&SocketAddr| !one.ip().to_canonical().is_loopback();
    if let Some(&address) = all.iter().find(is_exposed).filter(|_| !has_token) {
        let error = ServiceError::NeedsToken { address };
        usage_error!("{error}; add --token-file FILE");
    }
    let is_repeated = |(at, one): &(usize, &SocketAddr)| one.port() > 0 && all[..*at].contains(one);
    if let Some((_, address)) = all.iter().enumerate().find(is_repeated) {
        usage_error!("--listen {address} is given twice; omit one");
    }
    Ok(all)
}

/// `FATHOM_SERIALIZE`: a serial section in every request, as a known answer for loads.
fn serial_ns() -> anyhow::Result<u64> {
    let Some(text) = std::env::var_os("FATHOM_SERIALIZE").filter(|text| !text.is_empty()) else {
        return Ok(0);
    };
    let time = text.to_str().and_then(|text| fathom_metric::notation::time(text).ok());
    let time = time.filter(|time| *time <= std::time::Duration::from_millis(100));
    let Some(time) = time else {
        let text = text.to_string_lossy();
        anyhow::bail!("FATHOM_SERIALIZE={text}: expected a time of at most 100ms, such as 5ms");
    };
    warn(&format!(
        "FATHOM_SERIALIZE: one request at a time waits for {} ms",
        time.as_secs_f64() * 1e3
    ));
    Ok(time.as_nanos() as u64)
}

fn is_below(file: &Path, folder: &Path) -> bool {
    // The file may not exist yet.
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(".")).canonicalize();
    parent.ok().zip(folder.canonicalize().ok()).is_some_and(|(file, all)| file.starts_with(all))
}

fn limits(arguments: &ServeArguments) -> ServiceLimits {
    ServiceLimits {
        head_bytes: arguments.head_bytes as usize,
        fields: usize::from(arguments.fields),
        head_ns: arguments.head_time.as_nanos() as u64,
        idle_ns: arguments.idle.as_nanos() as u64,
        rate_bytes_per_s: arguments.min_rate,
        connections: arguments.connections.map(|count| count as usize),
        connections_per_address: arguments.connections_per_address as usize,
        ..ServiceLimits::default()
    }
}

/// Where it listens, and how to use it.
fn opening(
    arguments: &ServeArguments,
    server: &ServiceServer,
    token_file: Option<&Path>,
) -> String {
    let folder = arguments.folder.display();
    let mut text = String::new();
    for address in server.addresses() {
        text += &format!("Serving {folder} on http://{address}/\n");
    }
    let (threads, connections) = (server.threads(), server.connections_max());
    text += &format!(
        "{}, up to {connections} connections, congestion control {}\n",
        super::counted(threads, "reactor thread"),
        server.congestion()
    );
    let Some(address) = server.addresses().first() else { return text };
    let token_file = token_file.map(|path| shell_word(&path.display().to_string()));
    let authorization = token_file
        .as_ref()
        .map_or(String::new(), |path| format!(" -H \"Authorization: Bearer $(cat {path})\""));
    let for_load =
        token_file.as_ref().map_or(String::new(), |path| format!(" --token-file {path}"));
    let (ip, port) = (address.ip(), address.port());
    let (at, forwarded) = match ip.is_unspecified() {
        true => (format!("HOST:{port}"), format!("127.0.0.1:{port}")),
        false => (address.to_string(), address.to_string()),
    };
    text += &format!("List files  curl{authorization} http://{at}/.fathom/list\n");
    text += &format!("Load test   fathom load http://{at}/{for_load}\n");
    if token_file.is_some() {
        text += &format!(
            "Without TLS the token can be read on the network; ssh -L {port}:{forwarded} HOST \
             encrypts it\n"
        );
    }
    text += &format!("Round trips fathom run network --remote {at}{for_load}\n");
    text + "Stop        Ctrl-C\n"
}

/// The directory of `--receive`, by its full path.
fn receive_folder(path: &Path) -> anyhow::Result<PathBuf> {
    let folder = fathom_fileio::folder::Folder::at(path);
    let folder = folder.and_then(|folder| folder.keeping_files(true));
    folder.with_context(|| format!("--receive {}", path.display()))?;
    Ok(path.canonicalize()?)
}
