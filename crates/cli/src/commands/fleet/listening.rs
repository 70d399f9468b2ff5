//! Where a coordinator waits for its members, and the token that they prove.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, anyhow};
use fathom_far::{Token, nonce};
use fathom_fleet::{MEMBERS_MAX, TOKEN};
use fathom_measure::host;
use fathom_record::shell_word;

use super::engine::EngineSource;
use crate::arguments::fleet::GatherArguments;
use crate::exit::usage_error;

/// Nodes whose addresses are looked up, at most: some may be down or unknown.
const NODES_MAX: usize = 8;

/// The listener, and what members join.
pub(super) fn listen(
    arguments: &GatherArguments,
    source: &EngineSource,
) -> anyhow::Result<(TcpListener, String)> {
    let towards = match source {
        EngineSource::ByHand(_) => None,
        EngineSource::Slurm(nodes) => towards(nodes.iter().cloned()),
        EngineSource::Ssh { hosts, .. } => towards(hosts.iter().map(|host| real_name(host))),
    };
    let asked = match (arguments.listen, source, towards) {
        (Some(address), ..) => address,
        (None, EngineSource::ByHand(_), _) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        (None, _, Some(own)) => SocketAddr::from((own, 0)),
        (None, source, None) => usage_error!("{}", unknown_hosts(source)),
    };
    let listener = TcpListener::bind(asked).with_context(|| format!("listen on {asked}"))?;
    // A thousand members come at once.
    rustix::net::listen(&listener, MEMBERS_MAX as i32)?;
    let address = listener.local_addr()?;
    let join = match (address.ip().is_unspecified(), towards) {
        (false, _) => address.to_string(),
        (true, Some(own)) => SocketAddr::new(own, address.port()).to_string(),
        (true, None) => format!("{}:{}", host::read().shown_name(), address.port()),
    };
    Ok((listener, join))
}

/// No host has an address, so that there is none to which they connect.
fn unknown_hosts(source: &EngineSource) -> String {
    match source {
        EngineSource::Ssh { hosts, .. } if hosts.len() == 1 => format!(
            "--hosts {name}: no file {name}, and the address of a host {name} cannot be looked up; \
             if only ssh knows it, add --listen ADDR, the address of this host that it reaches",
            name = hosts[0]
        ),
        source => {
            let first = match source {
                EngineSource::Ssh { hosts, .. } => hosts.first(),
                EngineSource::Slurm(nodes) => nodes.first(),
                EngineSource::ByHand(_) => None,
            };
            let first = first.map_or("a host", String::as_str);
            format!(
                "the address of {first} cannot be looked up, nor that of another host; if only \
                 the engine knows them, add --listen ADDR, the address of this host that they reach"
            )
        }
    }
}

/// The name or address behind an alias of ssh, by its configuration.
fn real_name(host: &str) -> String {
    let output = Command::new("ssh").args(["-G", "--", host]).output();
    let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    let text = text.unwrap_or_default();
    let found = text.lines().find_map(|line| line.strip_prefix("hostname "));
    let without_user = || host.rsplit('@').next().unwrap_or(host);
    found.unwrap_or_else(without_user).to_owned()
}

/// The address from which the kernel sends to these hosts. Loopback only if all are here.
fn towards(names: impl Iterator<Item = String>) -> Option<IpAddr> {
    let own = |name: String| {
        let address = *fathom_http::resolve(&name, 9).ok()?.first()?;
        let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).ok()?;
        // Nothing is sent.
        socket.connect(address).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let found: Vec<IpAddr> = names.take(NODES_MAX).filter_map(own).collect();
    found.iter().find(|own| !own.is_loopback()).or(found.first()).copied()
}

/// The token of this gathering.
pub(super) struct OneTime {
    pub(super) token: Token,
    /// Where those who start members find it; removed at the end.
    file: Option<PathBuf>,
}

impl OneTime {
    /// The token of the environment, or a new one. In a file if others start the members.
    pub(super) fn new(source: &EngineSource) -> anyhow::Result<Self> {
        if let Some(text) = std::env::var_os(TOKEN).filter(|text| !text.is_empty()) {
            let token = text.to_str().and_then(Token::parse);
            let token = token.ok_or_else(|| anyhow!("{TOKEN} is not one line of ASCII"))?;
            return Ok(Self { token, file: None });
        }
        let secret = nonce()?;
        let mut one = Self { token: Token::new(&secret), file: None };
        if matches!(source, EngineSource::ByHand(_)) {
            let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
            let folder = folder.map_or_else(std::env::temp_dir, PathBuf::from);
            let path = folder.join(format!("fathom-fleet-{}.token", &nonce()?[..12]));
            // New: in a folder that others can write, the name could be a link of theirs.
            let mut options = OpenOptions::new();
            let opened = options.write(true).create_new(true).mode(0o600).open(&path);
            let mut file = opened.with_context(|| format!("create {}", path.display()))?;
            one.file = Some(path);
            writeln!(file, "{secret}")?;
        }
        Ok(one)
    }

    /// How a member is started on each host.
    pub(super) fn command(&self, join: &str) -> String {
        member(join, self.file.as_deref())
    }
}

pub(super) fn member(join: &str, token_file: Option<&Path>) -> String {
    let command = format!("fathom fleet member --join {}", shell_word(join));
    match token_file.map(|path| shell_word(&path.display().to_string())) {
        Some(path) => format!("{command} --token-file {path}"),
        None => format!("{command}    (with the same {TOKEN})"),
    }
}

impl Drop for OneTime {
    fn drop(&mut self) {
        if let Some(path) = &self.file {
            // It opens nothing any more.
            let _ = std::fs::remove_file(path);
        }
    }
}
