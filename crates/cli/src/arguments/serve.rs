//! `fathom serve`: the folder, where it listens, and its limits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
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
or its file system are not served, whatever symlinks say. Beyond loopback every request needs the
token (curl -H \"Authorization: Bearer $(cat FILE)\"). There is no TLS: the token and the files are
readable on the network; `ssh -L 3284:127.0.0.1:3284 HOST` encrypts them.

Ctrl-C and SIGTERM let responses finish for up to 5 s; a second one ends at once. Exit status: 0
stopped by a signal, 1 responses were cut off or it could not start, 130 stopped by a second
signal.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArguments {
    /// Directory.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Listen on this address, port, or both; repeatable [default: port 3284 of 127.0.0.1 and
    /// ::1].
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = listen)]
    pub listen: Vec<Listen>,
    /// Require the token in this file; it is made, readable by its owner only, if missing
    /// [default: $FATHOM_TOKEN_FILE].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Accept this name of the server in requests for /.fathom; repeatable [default: addresses,
    /// localhost and the host name].
    #[arg(long, value_name = "HOST")]
    pub name: Vec<String>,
    /// Evict each file from the page cache after its response.
    #[arg(long)]
    pub cold: bool,
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
    /// Refuse a larger request head.
    #[arg(long, value_name = "BYTES", default_value = "16KiB", value_parser = bytes)]
    pub head_bytes: u64,
    /// Refuse a request head with more fields, up to 256.
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub fields: u16,
    /// Close a connection that reads fewer bytes per second, over each 10 s.
    #[arg(long, value_name = "BYTES", default_value = "4KiB", value_parser = bytes)]
    pub min_rate: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen(pub Vec<SocketAddr>);

/// `8080` (both loopback addresses), `0.0.0.0`, `10.0.0.1:8080`, `::1` or `[::]:8080`.
fn listen(text: &str) -> Result<Listen, NotationError> {
    let both = |port| {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        loopback.map(|address| SocketAddr::new(address, port)).to_vec()
    };
    let in_brackets = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = in_brackets.unwrap_or(text).parse::<IpAddr>();
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
        // Two sockets would get two ports.
        return Ok(Listen(if port == 0 { both(0)[..1].to_vec() } else { both(port) }));
    }
    let whole = address.map(|address| SocketAddr::new(address, PORT)).or_else(|_| text.parse());
    let expected = "an address and a port, such as 127.0.0.1:8080, [::1]:8080, 0.0.0.0 or 8080";
    whole.map(|address| Listen(vec![address])).map_err(|_| NotationError::new(text, expected))
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
        ] {
            assert_eq!(of(text).unwrap(), expected, "{text}");
        }
        for text in ["", "host:80", "1.2.3", "70000", "1.2.3.4:99999"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
