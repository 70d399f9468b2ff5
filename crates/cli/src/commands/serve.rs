//! `fathom serve`: serves a folder until a signal.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use fathom_service::{Limits, Options, Server, ServiceError, token_from_file};
use rustix::event::{PollFd, PollFlags, poll};

use crate::arguments::serve::ServeArguments;
use crate::exit::{Status, usage_error};
use crate::interrupt::Interrupt;
use crate::terminal::warn;

/// How long responses may take to finish after a signal.
const GRACE_NS: u64 = 5_000_000_000;

pub(super) fn serve(arguments: &ServeArguments) -> anyhow::Result<Status> {
    let interrupt = Interrupt::listen_then_quit()?;
    let by_environment = std::env::var_os("FATHOM_TOKEN_FILE").filter(|path| !path.is_empty());
    let token_file = arguments.token_file.clone().or(by_environment.map(PathBuf::from));
    let listen: Vec<SocketAddr> =
        arguments.listen.iter().flat_map(|listen| listen.0.clone()).collect();
    if let Some(address) = listen.iter().find(|one| !one.ip().to_canonical().is_loopback())
        && token_file.is_none()
    {
        // Whatever the machine is like.
        let error = ServiceError::NeedsToken { address: *address };
        usage_error!("{error}; add --token-file FILE");
    }
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
        limits: limits(arguments),
        far: Some(fathom_far::Program::this().context("find this program")?),
    };
    let server = Server::start(options)?;
    let printed = super::print_text(&opening(arguments, &server, token_file.as_deref()))?;
    let mut wait = [PollFd::new(&interrupt, PollFlags::IN)];
    while printed == Status::Success && poll(&mut wait, None).is_err() {}
    match server.stop(GRACE_NS) {
        0 => Ok(printed),
        cut => {
            warn(&format!("{} cut off after 5 s", super::counted(cut, "response")));
            Ok(Status::Failed)
        }
    }
}

fn limits(arguments: &ServeArguments) -> Limits {
    Limits {
        head_bytes: arguments.head_bytes as usize,
        fields: usize::from(arguments.fields),
        head_ns: arguments.head_time.as_nanos() as u64,
        idle_ns: arguments.idle.as_nanos() as u64,
        rate_bytes_per_s: arguments.min_rate,
        connections: arguments.connections.map(|count| count as usize),
        connections_per_address: arguments.connections_per_address as usize,
        ..Limits::default()
    }
}

/// Where it listens, and how to use it.
fn opening(arguments: &ServeArguments, server: &Server, token_file: Option<&Path>) -> String {
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
    let authorization = token_file.map_or(String::new(), |path| {
        format!(" -H \"Authorization: Bearer $(cat {})\"", path.display())
    });
    let for_load =
        token_file.map_or(String::new(), |path| format!(" --token-file {}", path.display()));
    text += &format!("List files  curl{authorization} http://{address}/.fathom/list\n");
    text += &format!("Load test   fathom load http://{address}/{for_load}\n");
    let host = "HOST";
    if token_file.is_some() {
        let port = address.port();
        text += &format!(
            "Without TLS the token can be read on the network; ssh -L {port}:127.0.0.1:{port} \
             {host} encrypts it\n"
        );
    }
    text += &format!("Round trips fathom run network --remote {address}{for_load}\n");
    text + "Stop        Ctrl-C\n"
}
