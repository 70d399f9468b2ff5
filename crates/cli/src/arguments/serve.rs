//! `fathom serve`: the folder, where it listens, and its limits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fathom_http::{host_and_port, resolve};
use fathom_metric::notation::{NotationError, bytes, time};
use fathom_service::PORT;

const EXAMPLES: &str = "\
Examples:
  fathom serve .                       serve this directory on port 3284 of both loopback addresses
  fathom serve /data --listen 8080     use another port; 0 lets the kernel choose one
  fathom serve /data --listen 0.0.0.0 --token-file ~/.fathom-token
                                       serve other hosts; the token file is made if it is missing
  fathom serve /data --cold            evict each file from the page cache after its response
  curl http://127.0.0.1:3284/.fathom/metrics
                                       read the counters (OpenMetrics)
  curl -X POST -d '' http://127.0.0.1:3284/.fathom/evict
                                       evict all files from the page cache, with proof

GET and HEAD, byte ranges, conditional requests, keep-alive, pipelining. Files beyond the directory
or its file system are not served; absolute symlinks are not followed; `.fathom` in the directory is
reserved. Addresses beyond loopback need a token file. With one, also by FATHOM_TOKEN_FILE, every
request needs the token, on loopback too (curl -H \"Authorization: Bearer $(cat FILE)\"). There is
no TLS: the token and the files are readable on the network; `ssh -L 3284:127.0.0.1:3284 HOST`
encrypts them, where the service listens on 127.0.0.1 or 0.0.0.0.

Ctrl-C and SIGTERM let responses finish for up to 5 s; a second one ends at once. Exit status: 0
stopped by a signal, 1 responses were cut off or it could not start, 130 stopped by a second
signal.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArguments {
    /// Directory.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Listen on this address, port, or both; repeatable [default: localhost:3284, which is
    /// 127.0.0.1 and ::1; with port 0 only 127.0.0.1].
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = listen)]
    pub listen: Vec<Listen>,
    /// Listen on this port of localhost, as --listen PORT.
    #[arg(long, value_name = "PORT", value_parser = port, conflicts_with = "listen")]
    pub port: Option<Listen>,
    /// Require the token in this file; it is made, readable by its owner only, if missing
    /// [default: $FATHOM_TOKEN_FILE].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Accept this name of the server in the Host of requests; repeatable [default: addresses,
    /// localhost and the host name; with a token any name for files].
    #[arg(long, value_name = "HOST")]
    #[arg(value_parser = name)]
    pub name: Vec<String>,
    /// Evict each file from the page cache after its response.
    #[arg(long)]
    pub cold: bool,
    /// Receive the files of `fathom transfer --to` in this directory: without names, and removed
    /// after each repetition.
    #[arg(long, value_name = "DIR")]
    pub receive: Option<PathBuf>,
    /// Set the TCP congestion control, such as `cubic` [default: the system's].
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Use this many reactor threads [default: one per CPU].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Use this many threads for reads from devices.
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub lanes: u16,
    /// Refuse connections above this number [default: 10000, or what open files allow].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub connections: Option<u32>,
    /// Refuse connections above this number from one address beyond loopback.
    #[arg(long, value_name = "N", default_value_t = 2500)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_per_address: u32,
    /// Close a connection that is idle for this time.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    pub idle: Duration,
    /// Close a connection whose request head takes longer.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub head_time: Duration,
    /// Refuse a larger request head, from 256 B to 1 MiB.
    #[arg(long, value_name = "BYTES", default_value = "16KiB", value_parser = head_bytes)]
    pub head_bytes: u64,
    /// Refuse a request head with more fields, up to 256.
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub fields: u16,
    /// Close a connection that reads fewer bytes per second, over each 10 s; 0 for no limit.
    #[arg(long, value_name = "BYTES", default_value = "4KiB", value_parser = bytes)]
    pub min_rate: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen(pub Vec<SocketAddr>);

/// `8080` and `localhost:8080` (both loopback addresses), `localhost`, `0.0.0.0`,
/// `10.0.0.1:8080`, `::1` or `[::]:8080`.
fn listen(text: &str) -> Result<Listen, NotationError> {
    listen_at(text, PORT)
}

/// The same with another default port.
/// A port of localhost, and no address.
pub(super) fn port(text: &str) -> Result<Listen, NotationError> {
    let port = text.parse::<u16>();
    let port = port.map_err(|_| NotationError::new(text, "a port from 0 to 65535"))?;
    listen_at(&port.to_string(), port)
}

pub(super) fn listen_at(text: &str, default: u16) -> Result<Listen, NotationError> {
    let both = |port| {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        loopback.map(|address| SocketAddr::new(address, port)).to_vec()
    };
    if text.contains('%') {
        return zoned(text, default).map(|address| Listen(vec![address]));
    }
    let of_both = match text.strip_prefix("localhost") {
        Some("") => return Ok(Listen(both(default))),
        Some(rest) if rest.starts_with(':') => rest,
        _ => text,
    };
    let in_brackets = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = in_brackets.unwrap_or(text).parse::<IpAddr>();
    if let Ok(port) = of_both.strip_prefix(':').unwrap_or(of_both).parse::<u16>() {
        // Two sockets would get two ports.
        return Ok(Listen(if port == 0 { both(0)[..1].to_vec() } else { both(port) }));
    }
    // The kernel would take the port for a part of the address.
    if let Some((start, end)) = text.rsplit_once(':')
        && (address.is_ok() && in_brackets.is_none() && start.parse::<Ipv6Addr>().is_ok())
        && end.parse::<u16>().is_ok()
    {
        let expected = format!("[{start}]:{end}, or [{text}] for the address without a port");
        return Err(NotationError::new(text, expected));
    }
    let whole = address.map(|address| SocketAddr::new(address, default)).or_else(|_| text.parse());
    let expected = "an address, a port, or both, such as 127.0.0.1:8080, [::1]:8080, 0.0.0.0, \
                    localhost or 8080";
    whole.map(|address| Listen(vec![address])).map_err(|_| NotationError::new(text, expected))
}

/// A link-local address with its interface: `fe80::1%eth0` or `[fe80::1%eth0]:8080`.
fn zoned(text: &str, default: u16) -> Result<SocketAddr, NotationError> {
    let wrong = || NotationError::new(text, "an interface of this machine after the %");
    let (host, port) = host_and_port(text, default).ok_or_else(wrong)?;
    // A number after a colon could only be a name.
    let address = host.split('%').next().and_then(|it| it.parse::<Ipv6Addr>().ok());
    if !address.ok_or_else(wrong)?.is_unicast_link_local() {
        let expected = "an address without a zone; a zone is for link-local addresses only";
        return Err(NotationError::new(text, expected));
    }
    // The resolver knows the interfaces.
    resolve(host, port).ok().and_then(|mut all| all.pop()).ok_or_else(wrong)
}

/// A name as in Host, without a port.
pub(super) fn name(text: &str) -> Result<String, NotationError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if (1..=255).contains(&text.len()) && text.bytes().all(is_allowed) {
        return Ok(text.to_owned());
    }
    let expected = "a host name of 1 to 255 letters, digits, `-`, `.` and `_`, without a port";
    Err(NotationError::new(text, expected))
}

/// Less than the smallest refuses every request; the largest is for each connection.
fn head_bytes(text: &str) -> Result<u64, NotationError> {
    let size = bytes(text)?;
    match (256..=1 << 20).contains(&size) {
        true => Ok(size),
        false => Err(NotationError::new(text, "a size from 256 B to 1 MiB, such as 16KiB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_accepts_addresses_and_ports() {
        let of = |text| {
            listen(text).map(|Listen(all)| {
                all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            })
        };
        for (text, expected) in [
            ("8080", "127.0.0.1:8080 [::1]:8080"),
            (":8080", "127.0.0.1:8080 [::1]:8080"),
            ("0", "127.0.0.1:0"),
            ("0.0.0.0", "0.0.0.0:3284"),
            ("10.0.0.1:1", "10.0.0.1:1"),
            ("::1", "[::1]:3284"),
            ("[::]", "[::]:3284"),
            ("[::]:5", "[::]:5"),
            ("localhost", "127.0.0.1:3284 [::1]:3284"),
            ("localhost:81", "127.0.0.1:81 [::1]:81"),
            ("[::1:9000]", "[::1:9000]:3284"),
            ("2001:db8::a", "[2001:db8::a]:3284"),
            ("fe80::1%lo", "[fe80::1%1]:3284"),
            ("[fe80::1%lo]:81", "[fe80::1%1]:81"),
        ] {
            assert_eq!(of(text).unwrap(), expected, "{text}");
        }
        for text in [
            "",
            "host:80",
            "1.2.3",
            "70000",
            "1.2.3.4:99999",
            "localhost.",
            "localhost:x",
            "fe80::1%no-such",
            "[fe80::1%lo]81",
            "host%lo",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
        for text in ["[::1%lo]:0", "[::1%1]", "2001:db8::1%lo"] {
            let why = of(text).unwrap_err().to_string();
            assert!(why.ends_with("a zone is for link-local addresses only"), "{why}");
        }
        assert!(of("::1:9000").unwrap_err().to_string().contains("expected [::1]:9000, or"));
    }
}
