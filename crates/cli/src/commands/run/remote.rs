//! The host of `--remote`: its address, its facts, and the name of it in records.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use fathom_engine::Plan;
use fathom_far::{Far, FarError, Remote, Token};
use fathom_measure::sampler::{FarPlace, LOOPBACK};
use fathom_record::{Cause, Document, FarHost, Host, Record, State};
use fathom_service::PORT;

use crate::arguments::RunArguments;
use crate::exit::usage_error;

pub(super) struct RemoteHost {
    pub(super) place: FarPlace,
    pub(super) host: FarHost,
}

/// Connects once: whatever is wrong shows before anything is measured.
pub(super) fn find(arguments: &RunArguments, own: &Host) -> anyhow::Result<Option<RemoteHost>> {
    let Some(text) = &arguments.remote else { return Ok(None) };
    let Some((name, port)) = host_and_port(text) else {
        usage_error!("--remote {text}: expected HOST or HOST:PORT, such as 10.0.0.2 or [::1]:3284");
    };
    let by_environment = std::env::var_os("FATHOM_TOKEN_FILE").filter(|path| !path.is_empty());
    let token_file = arguments.token_file.clone().or(by_environment.map(PathBuf::from));
    let token_file = token_file
        .map(|path| path.canonicalize().with_context(|| format!("token file {}", path.display())))
        .transpose()?;
    let token = token_file.as_deref().map(Token::read).transpose()?;
    let (address, mut far) = connect(text, (name, port), token, arguments.bind)?;
    let (host, cpu) = far.host().map_err(|error| refused(text, &error))?;
    // One host may be both, over an address that is not loopback's.
    let is_other = host.identity() != own.identity() && host.name != LOOPBACK;
    let is_named = is_other && is_host_name(&host.name);
    let to = if is_named { host.name.clone() } else { name.to_owned() };
    let place =
        FarPlace { to: to.clone(), address: Some(address), bind: arguments.bind, cpu, token_file };
    Ok(Some(RemoteHost { place, host: FarHost { name: to, host, clock: None } }))
}

/// Metrics whose requests carry the token.
const BY_HTTP: [&str; 2] = ["network.http.get", "file.read.remote"];

impl RemoteHost {
    /// A warning of a token that others on the network can read.
    pub(super) fn exposure(&self, plan: &Plan) -> Option<String> {
        let FarPlace { address, token_file, .. } = &self.place;
        let address = address.filter(|address| !address.ip().to_canonical().is_loopback())?;
        token_file.as_ref()?;
        let metrics = plan.metrics(false);
        let by_http = metrics.iter().find(|entry| BY_HTTP.contains(&entry.about().id))?.about().id;
        let port = address.port();
        Some(format!(
            "{by_http} sends the token unencrypted to {address}; `ssh -L {port}:127.0.0.1:{port} \
             HOST` encrypts it, and the network is then that of ssh"
        ))
    }
}

/// The first address that answers.
fn connect(
    text: &str,
    host: (&str, u16),
    token: Option<Token>,
    bind: Option<IpAddr>,
) -> anyhow::Result<(SocketAddr, Far)> {
    let addresses = host.to_socket_addrs().with_context(|| format!("--remote {text}"))?;
    let mut addresses = addresses.peekable();
    let is_named = addresses.peek().is_some();
    let mut first = None;
    for address in addresses.filter(|to| bind.is_none_or(|from| from.is_ipv4() == to.is_ipv4())) {
        match Far::connect(&Remote { address, token: token.clone(), bind }) {
            Ok(far) => return Ok((address, far)),
            Err(error) => _ = first.get_or_insert(refused(text, &error)),
        }
    }
    match first {
        Some(error) => Err(error),
        None if is_named => {
            let family = if bind.is_some_and(|from| from.is_ipv4()) { "IPv4" } else { "IPv6" };
            bail!("--bind: {text} has no {family} address; bind to an address of its family")
        }
        None => bail!("--remote {text}: the name has no address"),
    }
}

/// `host`, `host:port`, `[::1]`, `[::1]:port` or `::1`.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) };
            (host, port)
        }
        None if text.matches(':').count() > 1 => (text, None),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Ok(PORT), str::parse).ok().filter(|port| *port > 0)?;
    is_host_name(host).then_some((host, port))
}

/// Whether it can be a parameter of records.
fn is_host_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.:%".contains(c);
    (1..=255).contains(&name.len()) && name.chars().all(is_allowed)
}

fn refused(text: &str, error: &FarError) -> anyhow::Error {
    if let FarError::NotOwn(from) = error {
        return anyhow!("--bind {from}: not an address of this host (`ip address` lists them)");
    }
    let remedy = match error {
        FarError::System { .. } => "; is `fathom serve` running there, and the port open?",
        // It accepted the connection.
        FarError::TimedOut(_) => {
            "; is it stopped, or does the path lose long packets (`ping -M do -s 1372 HOST`)?"
        }
        FarError::TokenMissing => "; name its file with --token-file",
        FarError::TokenWrong => "; copy the token file of the server",
        FarError::TokenUnknown => "; omit --token-file, or start the server with one",
        FarError::Protocol { .. } | FarError::OtherService(_) => {
            "; install the same version on both hosts"
        }
        FarError::OtherProgram(_) => "; name the port of `fathom serve`",
        FarError::Busy => "; wait for other runs to that host",
        _ => "",
    };
    anyhow!("--remote {text}: {error}{remedy}")
}

/// The cases to the host of `--remote`.
fn cases(document: &Document) -> impl Iterator<Item = &Record> {
    let is_far = |record: &&Record| {
        let to = record.params.text("to");
        document.far.iter().any(|far| to == Some(far.name.as_str()))
    };
    document.records.iter().filter(is_far)
}

/// Whether `--remote` gave nothing but failures.
pub(super) fn has_all_failed(document: &Document) -> bool {
    let mut states = cases(document).map(|record| record.verdict.state).peekable();
    states.peek().is_some() && states.all(|state| state == State::Failed)
}

/// A warning of a far end that was lost during the run.
pub(super) fn losses(document: &Document) -> Option<String> {
    let reasons = cases(document).flat_map(|record| &record.verdict.reasons);
    let mut lost = reasons.filter(|reason| reason.cause == Cause::FarEndLost);
    let first = lost.next()?;
    let (failed, all) = (1 + lost.count(), cases(document).count());
    Some(format!(
        "far end lost in {failed} of {all} remote cases: {}; is `fathom serve` running there?",
        first.text
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_accepts_names_and_addresses() {
        for (text, expected) in [
            ("bench-4", ("bench-4", PORT)),
            ("10.0.0.2:80", ("10.0.0.2", 80)),
            ("[::1]", ("::1", PORT)),
            ("[::1]:81", ("::1", 81)),
            ("fe80::1%eth0", ("fe80::1%eth0", PORT)),
        ] {
            assert_eq!(host_and_port(text), Some(expected), "{text}");
        }
        for text in ["", ":80", "a:", "a:0", "a:70000", "[::1", "[::1]80", "a b", "a,b", "http://a"]
        {
            assert_eq!(host_and_port(text), None, "{text}");
        }
    }
}
