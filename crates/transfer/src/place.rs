//! A service on another host, by the name and token that the user gives.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use fathom_far::files::{WorkOrder, WorkReport};
use fathom_far::{Channel, Far, FarError, PORT, ProtocolWork, Remote, SetUp, Token, WAIT_NS};
use fathom_http::{host_and_port, is_host, parse_host, resolve};
use fathom_measure::sampler::LOOPBACK;
use fathom_paths::device::{Obstacle, Presence};
use fathom_record::{Activity, FarHost, Host, system_cause};

/// An option that names a host, and its value.
#[derive(Clone, Copy, Debug)]
pub struct Named<'n> {
    /// Such as `--remote`.
    pub option: &'n str,
    pub text: &'n str,
}

/// A service that was reached.
#[derive(Debug)]
pub struct Reached {
    /// Its name in records.
    pub to: String,
    pub address: SocketAddr,
    pub host: FarHost,
    /// The CPU to use there.
    pub cpu: u32,
}

/// The token file that is named, or that of the environment.
///
/// # Errors
/// If it does not exist.
pub fn token_file(named: Option<&Path>) -> Result<Option<PathBuf>, String> {
    let by_environment = std::env::var_os("FATHOM_TOKEN_FILE").filter(|path| !path.is_empty());
    let file = named.map(Path::to_owned).or(by_environment.map(PathBuf::from));
    let found = |path: PathBuf| {
        // Not its canonical path: a file in memory has none.
        let full = std::path::absolute(&path).and_then(|full| full.metadata().map(|_| full));
        full.map_err(|error| format!("token file {}: {error}", path.display()))
    };
    file.map(found).transpose()
}

impl Named<'_> {
    /// Whether it can be a host.
    ///
    /// # Errors
    /// If not: what is expected.
    pub fn check(self) -> Result<(), String> {
        let Self { option, text } = self;
        let expected = "name HOST or HOST:PORT, such as 10.0.0.2 or [::1]:3284";
        let why = match parse_host(text, PORT) {
            Ok((_, 1..)) => return Ok(()),
            Ok(_) => "port 0".to_owned(),
            Err(_) if text.contains("://") => "a URL".to_owned(),
            Err(why) => why,
        };
        Err(format!("{option} {text}: {why}; {expected}"))
    }

    /// Connects once: whatever is wrong shows before anything is measured.
    ///
    /// # Errors
    /// If no address answers as a far end: why, and what to do.
    pub fn reach(
        self,
        token_file: Option<&Path>,
        bind: Option<IpAddr>,
        own: &Host,
    ) -> Result<Reached, String> {
        self.check()?;
        let token = token_file.map(Token::read).transpose().map_err(|error| error.to_string())?;
        let (name, port) = host_and_port(self.text, PORT).unwrap_or_default();
        let (address, mut far) = self.connect((name, port), token, bind)?;
        let (host, cpu) = far.host().map_err(|error| self.refused(&error))?;
        // One host may be both, over an address that is not loopback's.
        let is_other = host.identity() != own.identity() && host.name != LOOPBACK;
        let is_named = is_other && is_host(&host.name);
        let to = if is_named { host.name.clone() } else { name.to_owned() };
        let host = FarHost { name: to.clone(), host, clock: None };
        Ok(Reached { to, address, host, cpu })
    }

    /// Sets up a far end that receives files, which then ends: whether it can, and has a kernel
    /// device for it. A service without the question has none.
    ///
    /// # Errors
    /// If it cannot: why.
    pub fn try_files(
        self,
        reached: &Reached,
        token_file: Option<&Path>,
        bind: Option<IpAddr>,
    ) -> Result<Presence, String> {
        let begin = || {
            let token = token_file.map(Token::read).transpose()?;
            let mut far = Far::connect(&Remote { address: reached.address, token, bind })?;
            let (work, cpu, congestion) = (ProtocolWork::Files, reached.cpu, None);
            let data = far.begin(SetUp { work, cpu, congestion })?;
            Ok((far, data))
        };
        let (far, data) = begin().map_err(|error| self.refused(&error))?;
        let ask = |data| {
            let mut orders = Channel::new(OwnedFd::from(data));
            orders.send(&WorkOrder::Device)?;
            orders.json(WAIT_NS)
        };
        let answer = data.into_iter().next().map(ask);
        drop(far);
        Ok(match answer {
            Some(Ok(WorkReport::Device { presence })) => presence,
            _ => Presence::Missing(Obstacle::NoDevice),
        })
    }

    /// The first address that answers.
    fn connect(
        self,
        (host, port): (&str, u16),
        token: Option<Token>,
        bind: Option<IpAddr>,
    ) -> Result<(SocketAddr, Far), String> {
        let Self { option, text } = self;
        let addresses = resolve(host, port);
        let addresses = addresses.map_err(|error| format!("{option} {text}: {error}"))?;
        let of_family = |to: &SocketAddr| bind.is_none_or(|from| from.is_ipv4() == to.is_ipv4());
        let mut first = None;
        for address in addresses.into_iter().filter(of_family) {
            match Far::connect(&Remote { address, token: token.clone(), bind }) {
                Ok(far) => return Ok((address, far)),
                Err(error) => _ = first.get_or_insert(self.refused(&error)),
            }
        }
        Err(first.unwrap_or_else(|| {
            let family = if bind.is_some_and(|from| from.is_ipv4()) { "IPv4" } else { "IPv6" };
            format!("--bind: {text} has no {family} address; bind to an address of its family")
        }))
    }

    fn refused(self, error: &FarError) -> String {
        if let FarError::NotOwn(from) = error {
            return format!("--bind {from}: not an address of this host (`ip address` lists them)");
        }
        if let FarError::System { call, error } = error {
            let cause = system_cause(error, Activity::AnyPort);
            let is_refused = error.kind() == ErrorKind::ConnectionRefused;
            let remedy = cause.remedy.filter(|_| !is_refused);
            let remedy = remedy.unwrap_or("is `fathom serve` running there, and the port open?");
            return format!("{} {}: {call}: {}; {remedy}", self.option, self.text, cause.text);
        }
        let remedy = match error {
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
        format!("{} {}: {error}{remedy}", self.option, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_far_end_is_named_with_the_remedy() {
        let place = Named { option: "--to", text: "bench-4" };
        let text = place.refused(&FarError::TimedOut(10.0));
        assert!(text.starts_with("--to bench-4: no answer within 10 s; "), "{text}");
        assert!(text.contains("long packets"), "{text}");
    }
}
