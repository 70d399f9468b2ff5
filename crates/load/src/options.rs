//! The options of `fathom load`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use fathom_analysis::load::{LoadCondition, conditions, objectives};
use fathom_http::{Url, is_host};
use fathom_metric::notation::{NotationError, bytes, count, seed, time};

use crate::engine::{Arrivals, Body, Distribution, EngineChoice, ScheduleRate};
use crate::https::Https;
use crate::message::{MessageOptions, field};
use crate::rates::{Rates, rates};
use crate::server::Which;
use crate::share::Share;

const EXAMPLES: &str = "\
Examples:
  fathom load --make 10000x2MB DIR              make a set of files
  fathom load http://HOST:8080/ --clients 1..20 --time 120s
                                                a served folder on HOST, 1 to 20 clients
  fathom load http://HOST:8080/ --clients 1,2,4,8 --think 1s --server-cache cold
  fathom load http://HOST:8080/ --cases think0,think1,fixed --clients 1..20
                                                the three cases of the published study
  fathom load http://HOST:8080/ --clients 1..20 --prove
                                                name the bottleneck, and prove it
  fathom load http://HOST:8080/ --rate 100..1000 --clients 8
                                                8 clients, then 100, 200, 400, 800 and 1000
                                                requests/s whenever responses come
  fathom load http://HOST:8080/ --rate 500 --fail-if 'p99>50ms,errors>0.1%'
                                                a test: exit status 0, 3 or 5
  fathom load http://HOST:8080/ --find-max --slo 'p99<50ms,errors<0.1%'
                                                the highest rate within these limits
  fathom load http://HOST:8080/ --metrics 9100 --jsonl
                                                for Prometheus, and a line each second
  fathom load http://HOST/ --urls '/f{0..9999}'   another HTTP server, by a pattern
  fathom load http://HOST/file.iso              one file of any HTTP server
  fathom load http://127.0.0.1:8001/ --pid auto   the bottleneck of a server here, such as nginx
  fathom load http://127.0.0.1:8001/ --cost       what a request should cost that server, by its
                                                system calls and page faults
  fathom load https://HOST/ --cacert ca.pem --fresh   a TLS handshake for each request
  fathom load https://HOST/api -d '{\"a\":1}' -T application/json   requests by POST
  fathom load http://localhost/ --unix-socket /run/app.sock   a server at a unix socket

Each client sends a request, receives the response, thinks, and repeats (closed loop). Requests of
--rate do not wait for responses (open loop): response times are from when a request was due. The
steps run in three sweeps, each in another random order; --time is the sum for each of them.
By https the certificate must be valid for the host, by the roots of the system or --cacert; without
--fresh a handshake is made for each client, with it for each request, and no session is resumed.
With `fathom serve`, or a server on this machine (--pid), CPU, disk and memory of both ends are
recorded; of any other server only the client's side is known. The memory, not the network, may
limit a load on loopback.

Exit status: 0 a step has a valid or noisy result, 1 none has, or the server stopped answering,
2 wrong usage, 130 Ctrl-C. With --fail-if, or --slo without --find-max: 0 pass, 3 fail,
5 undecided.";

/// The options of members.
pub const OPTIONS: [&str; 18] = [
    "clients",
    "rate",
    "arrivals",
    "in_flight",
    "think",
    "think_distribution",
    "time",
    "mode",
    "cases",
    "urls",
    "fresh",
    "body",
    "congestion",
    "threads",
    "connect_timeout",
    "timeout",
    "insecure",
    "seed",
];

/// Measure an HTTP server under load, by clients in a closed loop or at a rate.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct LoadOptions {
    /// URL of the server, of a folder on it, or of a file; with --make the folder to fill.
    #[arg(value_name = "URL|DIR")]
    pub target: String,
    /// Make COUNT files of SIZE bytes in DIR instead, such as 10000x2MB.
    #[arg(long, value_name = "COUNTxSIZE", value_parser = set, conflicts_with_all = OPTIONS)]
    #[arg(conflicts_with_all = ["find_max", "slo", "fail_if", "prove", "pid", "requests"])]
    #[arg(conflicts_with_all = ["data_file", "headers", "server_cache", "token_file", "metrics"])]
    #[arg(conflicts_with_all = ["unix_socket", "resolve", "cacert", "cert", "key", "follow"])]
    pub make: Option<LoadSet>,
    /// Numbers of closed-loop clients: a list, or a range with every number in it [default:
    /// 1,2,4,8; none with --rate or --find-max].
    #[arg(long, short, value_name = "LIST", value_parser = clients)]
    pub clients: Option<Clients>,
    /// Send so many requests a second, whenever responses come (open loop): a list; 100..1000
    /// doubles, 100..1000:100 goes by steps.
    #[arg(long, short = 'q', value_name = "LIST", value_parser = rates,
        conflicts_with_all =
        ["think", "think_distribution", "mode", "cases", "requests"])]
    pub rate: Option<Rates>,
    /// Arrivals of an open loop: at random times, or at equal distances [default: poisson].
    #[arg(long, value_enum, value_name = "NAME")]
    pub arrivals: Option<Arrivals>,
    /// Most requests of an open loop in flight, each with a connection; others wait [default:
    /// 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub in_flight: Option<u32>,
    /// Think time between a response and the next request.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = think)]
    pub think: Duration,
    /// Distribution of the think time around its mean.
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Distribution::Constant)]
    pub think_distribution: Distribution,
    /// Time for each number of clients and each rate, divided among three sweeps.
    #[arg(long, short = 'z', visible_alias = "duration", value_name = "TIME",
        default_value = "30s", value_parser = time)]
    pub time: Duration,
    /// How clients choose files: `fixed` is file i for client i.
    #[arg(long, value_enum, value_name = "MODE", default_value_t = EngineChoice::Random)]
    pub mode: EngineChoice,
    /// Measure several cases in one run: `think0` and `think1` (random files, think time 0 or 1 s),
    /// `fixed` (fixed files, think time 0).
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["think", "mode"])]
    pub cases: Vec<CaseName>,
    /// Paths to request: a file with one in each line, maybe with a weight (`PATH WEIGHT`), or a
    /// pattern such as /f{0..9999} [default: the list of `fathom serve`, else the path of the URL].
    #[arg(long, value_name = "FILE|PATTERN")]
    pub urls: Option<String>,
    /// Add a header field to each request; can be repeated.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = field)]
    pub header: Vec<String>,
    #[command(flatten)]
    pub message: MessageOptions,
    /// Make exactly this many requests for each number of clients, without a warm-up and besides
    /// the one that checks the first file; --time ends a step before.
    #[arg(long, short = 'n', value_name = "N", value_parser = positive)]
    pub requests: Option<u64>,
    /// Open a new connection for each request.
    #[arg(long)]
    pub fresh: bool,
    /// State of the server's page cache before each sweep (`fathom serve` only).
    #[arg(long, value_enum, value_name = "STATE", default_value_t = ServerCache::AsIs)]
    pub server_cache: ServerCache,
    /// Copy bodies to user space, let the kernel drop them, or compare them with the files.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = BodyName::Copy)]
    pub body: BodyName,
    /// Congestion control of the client's sockets [default: the system's].
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Client threads [default: the CPUs, half of them on loopback].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Time limit of a connect.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub connect_timeout: Duration,
    /// Time limit from a request to the end of its response, also of the first one.
    #[arg(long, short = 't', value_name = "TIME", default_value = "30s", value_parser = time)]
    pub timeout: Duration,
    /// Send the token in this file (Authorization: Bearer) [default: $FATHOM_TOKEN_FILE].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    pub https: Https,
    /// Follow redirects within the same scheme, host and port, at most 5 for each request (GET,
    /// HEAD). The response time is that of all.
    #[arg(long)]
    pub follow: bool,
    /// Connect to the server at this unix socket.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["resolve", "congestion"])]
    pub unix_socket: Option<PathBuf>,
    /// Connect to this address for the host and port of the URL.
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = resolved)]
    pub resolve: Option<Resolved>,
    /// Prove the bottleneck: add known work to one resource at a time, and compare the effects with
    /// the predicted ones (`fathom serve` only).
    #[arg(long)]
    pub prove: bool,
    /// Process of a server other than `fathom serve` on this machine: CPU, disk and memory are read
    /// of it and its children [default: auto, if the address is of this machine].
    #[arg(long, value_name = "auto|PID", value_parser = which)]
    pub pid: Option<Which>,
    /// Count the operations of a request: at the step with the highest throughput a server on this
    /// machine is followed by ptrace(2) for a second, and what it should cost at this machine's
    /// prices is printed beside its CPU time.
    #[arg(long, conflicts_with_all = ["make", "find_max", "share"])]
    pub cost: bool,
    /// Measure the prices that have no result yet first (`fathom run`).
    #[arg(long, requires = "cost", conflicts_with_all = ["make", "find_max", "share"])]
    pub measure: bool,
    /// Exit with 3 if a step meets a condition, such as p99>50ms, errors>0.1% or throughput<500,
    /// with 5 if its interval includes the limit; several are separated by commas.
    #[arg(long, value_name = "CONDITIONS", value_parser = fail_if)]
    pub fail_if: Option<Conditions>,
    /// Find the highest rate that is sustained within --slo, in at most 21 windows of a third of
    /// --time.
    #[arg(long, conflicts_with_all =
        ["rate", "clients", "think", "mode", "cases", "requests", "prove", "fail_if"])]
    pub find_max: bool,
    /// Limits such as 'p99<50ms,errors<0.1%': of --find-max, else of each step, as by --fail-if.
    #[arg(long, value_name = "CONDITIONS", value_parser = slo)]
    pub slo: Option<Conditions>,
    /// Serve the counters meanwhile, as OpenMetrics at http://ADDR/metrics; beyond loopback this
    /// needs --token-file, whose token each request must have.
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = listening)]
    pub metrics: Option<SocketAddr>,
    /// Make the share of one of several members, by a fixed plan, for `fathom fleet load`.
    #[arg(long, value_name = "N/M", hide = true, conflicts_with_all =
        ["find_max", "prove", "make", "requests", "server_cache", "metrics"])]
    pub share: Option<Share>,
    /// Seed the choice of files and the order of steps.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed)]
    pub seed: u64,
}

/// A set of files to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadSet {
    pub files: u64,
    pub bytes: u64,
}

/// The address of a host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    host: String,
    port: u16,
    address: IpAddr,
}

impl Resolved {
    /// # Errors
    /// If the URL has another host or port.
    pub fn address_of(&self, url: &Url) -> Result<SocketAddr, String> {
        match self.host.eq_ignore_ascii_case(&url.host) && self.port == url.port {
            true => Ok((self.address, self.port).into()),
            false => Err(format!(
                "--resolve {}:{}: the URL has host and port {}:{}",
                self.host, self.port, url.host, url.port
            )),
        }
    }
}

/// Conditions under which a load fails.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions(pub Vec<LoadCondition>);

fn fail_if(text: &str) -> Result<Conditions, String> {
    conditions(text).map(Conditions)
}

fn slo(text: &str) -> Result<Conditions, String> {
    objectives(text).map(Conditions)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients(pub Vec<u32>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CaseName {
    /// Random files, no think time.
    Think0,
    /// Random files, think time of 1 s.
    Think1,
    /// Fixed files, no think time.
    Fixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServerCache {
    /// Evicted before each sweep.
    Cold,
    /// Read before each sweep.
    Warm,
    /// Whatever is cached.
    AsIs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BodyName {
    Copy,
    Discard,
    /// With the contents of a set by --make, else with the first response of each file.
    Verify,
}

impl BodyName {
    /// Value of the parameter; `None` for the default.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Copy => None,
            Self::Discard => Some("discard"),
            Self::Verify => Some("verify"),
        }
    }
}

impl From<BodyName> for Body {
    fn from(name: BodyName) -> Self {
        match name {
            BodyName::Copy => Self::Copy,
            BodyName::Discard => Self::Discard,
            BodyName::Verify => Self::Verify,
        }
    }
}

/// A case of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadVariant {
    pub choice: EngineChoice,
    pub think: Duration,
}

impl LoadOptions {
    /// The numbers of clients of the closed-loop steps.
    pub fn closed(&self) -> Vec<u32> {
        match (&self.clients, &self.rate) {
            (Some(clients), _) => clients.0.clone(),
            (None, Some(_)) => Vec::new(),
            (None, None) if self.find_max => Vec::new(),
            (None, None) => CLIENTS.to_vec(),
        }
    }

    /// The rates of the open-loop steps.
    pub fn open(&self) -> Vec<ScheduleRate> {
        let rates = self.rate.iter().flat_map(|rates| &rates.0);
        rates.map(|&per_second| ScheduleRate { per_second, arrivals: self.arrivals() }).collect()
    }

    pub fn arrivals(&self) -> Arrivals {
        self.arrivals.unwrap_or(Arrivals::Poisson)
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight.unwrap_or(IN_FLIGHT)
    }

    /// Of this member, for which one connection is the least.
    pub fn own_in_flight(&self) -> u32 {
        self.own(self.in_flight()).max(1)
    }

    /// The conditions under which the load fails.
    pub fn fails_if(&self) -> Vec<LoadCondition> {
        let limits = self.slo.iter().filter(|_| !self.find_max).flat_map(|all| &all.0);
        let given = self.fail_if.iter().flat_map(|all| &all.0).cloned();
        given.chain(limits.map(LoadCondition::broken)).collect()
    }

    /// Whether requests are sent at a rate.
    pub fn has_open_loop(&self) -> bool {
        self.rate.is_some() || self.find_max
    }

    /// How many of all this member has.
    pub fn own(&self, all: u32) -> u32 {
        self.share.map_or(all, |share| share.count(all))
    }

    /// The most connections at a time, and the option that says so.
    pub fn most_connections(&self) -> (&'static str, u32) {
        let clients = self.closed().into_iter().max();
        let clients = clients.map(|clients| ("--clients", self.own(clients).max(1)));
        let in_flight = self.has_open_loop().then(|| ("--in-flight", self.own_in_flight()));
        let all = [clients, in_flight].into_iter().flatten();
        all.max_by_key(|(_, most)| *most).unwrap_or(("--clients", 1))
    }

    pub fn all_cases(&self) -> Vec<LoadVariant> {
        let of = |name: &CaseName| match name {
            CaseName::Think0 => LoadVariant { choice: EngineChoice::Random, think: Duration::ZERO },
            CaseName::Think1 => {
                LoadVariant { choice: EngineChoice::Random, think: Duration::from_secs(1) }
            }
            CaseName::Fixed => LoadVariant { choice: EngineChoice::Fixed, think: Duration::ZERO },
        };
        match self.cases.as_slice() {
            [] => vec![LoadVariant { choice: self.mode, think: self.think }],
            names => names.iter().map(of).collect(),
        }
    }
}

/// Numbers of clients where neither these nor rates are given.
const CLIENTS: [u32; 4] = [1, 2, 4, 8];
/// Requests in flight where their number is not given.
const IN_FLIGHT: u32 = 1_000;
const CLIENTS_MAX: u64 = 100_000;
const STEPS_MAX: usize = 1_000;

/// A list of numbers of clients; a range means every number in it.
fn clients(text: &str) -> Result<Clients, NotationError> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (from, to) =
            part.split_once("..").or_else(|| part.split_once('…')).unwrap_or((part, part));
        let (from, to) = (count(from.trim())?, count(to.trim())?);
        if from == 0 || from > to || to > CLIENTS_MAX || (to - from) as usize >= STEPS_MAX {
            let expected = format!("1 to {CLIENTS_MAX} clients, such as 1..20 or 1,2,4,8");
            return Err(NotationError::new(part, expected));
        }
        all.extend((from..=to).map(|clients| clients as u32));
    }
    all.sort_unstable();
    all.dedup();
    match all.len() <= STEPS_MAX {
        true => Ok(Clients(all)),
        false => Err(NotationError::new(text, format!("at most {STEPS_MAX} numbers"))),
    }
}

/// A time, or 0.
fn think(text: &str) -> Result<Duration, NotationError> {
    match text.trim() {
        "0" | "0s" | "0ms" => Ok(Duration::ZERO),
        other => time(other),
    }
}

fn set(text: &str) -> Result<LoadSet, NotationError> {
    let wrong = || NotationError::new(text, "COUNTxSIZE, such as 10000x2MB");
    let (files, size) = text.split_once(['x', '×']).ok_or_else(wrong)?;
    let set = LoadSet { files: count(files.trim())?, bytes: bytes(size.trim())? };
    let is_right = set.files > 0 && set.files <= u64::from(crate::paths::PATHS_MAX);
    (is_right && set.bytes > 0 && set.files.checked_mul(set.bytes).is_some())
        .then_some(set)
        .ok_or_else(wrong)
}

fn resolved(text: &str) -> Result<Resolved, NotationError> {
    let parsed = || {
        let (host, rest) = text.split_once(':')?;
        let (port, address) = rest.split_once(':')?;
        let address =
            address.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(address);
        let (port, address) = (port.parse().ok()?, address.parse().ok()?);
        is_host(host).then(|| Resolved { host: host.to_owned(), port, address })
    };
    parsed().ok_or_else(|| NotationError::new(text, "HOST:PORT:ADDRESS, such as a.b:443:10.0.0.2"))
}

/// `9100` and `localhost:9100` are of 127.0.0.1.
fn listening(text: &str) -> Result<SocketAddr, NotationError> {
    let port = text.strip_prefix("localhost:").unwrap_or(text).parse::<u16>();
    let address = port.map(|port| (Ipv4Addr::LOCALHOST, port).into());
    let expected = "a port, or an address with one, such as 9100, 127.0.0.1:9100 or [::1]:9100";
    address.or_else(|_| text.parse()).map_err(|_| NotationError::new(text, expected))
}

fn which(text: &str) -> Result<Which, NotationError> {
    if text == "auto" {
        return Ok(Which::Auto);
    }
    let number = text.parse().ok().filter(|number| *number > 0);
    number
        .map(Which::Process)
        .ok_or_else(|| NotationError::new(text, "`auto`, or the number of a process"))
}

fn positive(text: &str) -> Result<u64, NotationError> {
    match count(text)? {
        0 => Err(NotationError::new(text, "a number above 0")),
        number => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_of_clients_means_every_number() {
        assert_eq!(clients("1..4"), Ok(Clients(vec![1, 2, 3, 4])));
        assert_eq!(clients("8,2,2,3…4"), Ok(Clients(vec![2, 3, 4, 8])));
        for text in ["0", "5..2", "x", "", "1..100001", "1,,2", "1..5000"] {
            assert!(clients(text).is_err(), "{text}");
        }
    }

    #[test]
    fn set_has_decimal_or_binary_sizes() {
        assert_eq!(set("10000x2MB"), Ok(LoadSet { files: 10_000, bytes: 2_000_000 }));
        assert_eq!(set("3x2MiB"), Ok(LoadSet { files: 3, bytes: 2 << 20 }));
        for text in ["0x1MB", "3x0", "3", "x2MB", "3xlarge", "9999999x1"] {
            assert!(set(text).is_err(), "{text}");
        }
    }

    #[test]
    fn address_replaces_that_of_the_url_only() {
        let url = Url::parse("https://A.b/x").unwrap();
        for (text, address) in [
            ("a.b:443:10.0.0.2", Some("10.0.0.2:443")),
            ("a.b:443:[::1]", Some("[::1]:443")),
            ("a.b:443:::1", Some("[::1]:443")),
            ("a.b:80:10.0.0.2", None),
            ("b:443:10.0.0.2", None),
        ] {
            let found = resolved(text).unwrap().address_of(&url).ok().map(|it| it.to_string());
            assert_eq!(found.as_deref(), address, "{text}");
        }
        for wrong in ["", "a.b", "a.b:443", "a.b:x:10.0.0.2", "a.b:443:c", ":443:10.0.0.2"] {
            assert!(resolved(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn metrics_are_served_on_loopback_without_an_address() {
        let of = |text: &str| listening(text).ok().map(|it| it.to_string());
        for text in ["9100", "localhost:9100", "127.0.0.1:9100"] {
            assert_eq!(of(text).as_deref(), Some("127.0.0.1:9100"), "{text}");
        }
        assert_eq!(of("[::]:1").as_deref(), Some("[::]:1"));
        for text in ["", ":9100", "0.0.0.0", "host:9100", "70000", "::1"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn published_cases_are_one_run() {
        let load = LoadOptions::parse_from(["load", "http://a/", "--cases", "think0,think1,fixed"]);
        let cases: Vec<_> =
            load.all_cases().iter().map(|it| (it.choice.word(), it.think.as_secs())).collect();
        assert_eq!(cases, [("random", 0), ("random", 1), ("fixed", 0)]);
        assert_eq!(think("0s"), Ok(Duration::ZERO));
        for (count, of_sweeps) in [("30", [10, 10, 10]), ("32", [10, 10, 12]), ("1", [0, 0, 1])] {
            let load = LoadOptions::parse_from(["load", "http://a/", "--requests", count]);
            assert_eq!([0, 1, 2].map(|sweep| load.requests_in(sweep).unwrap()), of_sweeps);
        }
        assert!(LoadOptions::try_parse_from(["load", "http://a/", "--clients", "0"]).is_err());
    }
}
