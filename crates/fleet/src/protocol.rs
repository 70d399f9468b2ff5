//! What a coordinator and its members say to each other: JSON lines over the one connection that a
//! member opens.
//!
//! 1. The member sends a hello with its challenge; the coordinator answers with its own, and with
//!    the first proof; the member proves itself, and joins with the facts of its host.
//! 2. The coordinator gives an order. To start together, the member says when it is ready, answers
//!    the exchanges of the clocks, and starts at the time that it is given.
//! 3. The member says that it has finished, and sends its document when it may: a line with the
//!    number of bytes, then the bytes.
//!
//! Each end sends a sign of life at least every [`ALIVE_NS`], and gives the other up after
//! [`LOST_NS`] of silence.

use std::net::{IpAddr, SocketAddr};

use fathom_far::{FarError, LINE_BYTES_MAX, Side, Token, is_nonce, is_same, nonce, printable};
use fathom_record::host::is_name;
use fathom_record::{Effort, Host};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::FleetError;

/// Version of the protocol. Both ends must have the same.
pub const PROTOCOL: u32 = 1;
/// Part of each proof.
const CONTEXT: &str = "fathom-fleet/1";
/// Part of the token of a far end.
const FAR_END: &str = "fathom-fleet/1 far end";
/// Lower ports are reserved for other services (RFC 6335): no far end of a member has one.
pub(crate) const PORT_MIN: u16 = 1024;

/// Members of one coordinator, at most.
pub const MEMBERS_MAX: usize = 4096;
/// Bytes of a document, at most: twice those of a thorough run of everything with its samples.
pub const DOCUMENT_BYTES_MAX: u64 = 16 << 20;
/// The longest time between two lines of one end.
pub(crate) const ALIVE_NS: u64 = 5_000_000_000;
/// An end that is silent for so long is lost.
pub(crate) const LOST_NS: u64 = 30_000_000_000;
/// Selectors of an order, and bytes of one.
const METRICS_MAX: usize = 1000;
const METRIC_BYTES_MAX: usize = 1000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum ToCoordinator {
    /// First.
    Hello {
        protocol: u32,
        /// Of the program.
        version: String,
        /// 64 hexadecimal digits.
        challenge: String,
    },
    Proof {
        proof: String,
    },
    Join(Box<Join>),
    /// A sign of life.
    Alive {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<FleetProgress>,
    },
    /// To start together: it can start.
    Ready,
    /// Answers [`ToMember::Clock`]: its stamp, and when it was received and answered, by the
    /// member's CLOCK_MONOTONIC_RAW.
    Stamps {
        sent_ns: u64,
        received_ns: u64,
        answered_ns: u64,
    },
    /// When it started, by the member's CLOCK_MONOTONIC_RAW.
    Started {
        at_ns: u64,
    },
    /// Its far end accepts connections on this port, at the address from which it has joined.
    Serving {
        port: u16,
    },
    /// It has measured, and waits for [`ToMember::Deliver`].
    Finished,
    /// The document follows: so many bytes.
    Document {
        bytes: u64,
    },
    /// It has no result, and why. Only one that measured to another member goes on then.
    Failed {
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum ToMember {
    Hello {
        protocol: u32,
        version: String,
        challenge: String,
        proof: String,
    },
    /// It has joined.
    Joined,
    Order(Box<FleetOrder>),
    /// An exchange of clocks; sent at this time by the coordinator's CLOCK_MONOTONIC_RAW.
    Clock {
        sent_ns: u64,
    },
    /// Start at this time by the member's CLOCK_MONOTONIC_RAW.
    Start {
        at_ns: u64,
    },
    /// Send the document.
    Deliver,
    /// A sign of life.
    Alive,
    /// Nothing more to do; or the reason for which the member is sent away.
    End {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// The host of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Join {
    /// The place in the engine that started it.
    pub rank: Option<u32>,
    /// What the engine calls its host.
    pub node: Option<String>,
    /// Of the running kernel: two members with the same one measure the same machine.
    pub boot_id: String,
    #[serde(deserialize_with = "by_value")]
    pub host: Host,
    /// The id of its host if it is named by its name: used where clones share an id.
    pub named_id: Option<String>,
}

/// By way of a value: the tag of a message does not go with maps whose keys are numbers.
fn by_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Host, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    serde_json::from_value(value).map_err(D::Error::custom)
}

impl Join {
    /// # Errors
    /// What of it cannot be.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.implausible().map_or(Ok(()), |what| Err(format!("its {what} cannot be")))
    }

    /// What of it cannot be.
    fn implausible(&self) -> Option<&'static str> {
        let is_text = |text: &str| text == printable(text);
        let is_id = |id: &Option<String>| id.as_ref().is_none_or(|id| is_text(id));
        let faults = [
            ("host name", is_name(&self.host.name)),
            ("host id", is_id(&self.host.id) && is_id(&self.named_id)),
            ("node name", self.node.as_deref().is_none_or(is_name)),
            ("boot id", is_text(&self.boot_id)),
            ("facts", self.host.is_printable()),
        ];
        let fault = faults.into_iter().find_map(|(name, is_right)| (!is_right).then_some(name));
        fault.or_else(|| self.host.implausible())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetOrder {
    pub work: FleetWork,
    /// Whether to name the host by its name, since another host has the same id.
    #[serde(default)]
    pub by_name: bool,
    /// Whether to be ready, and to start at a time to come.
    #[serde(default)]
    pub together: bool,
}

/// What a member is asked to do. It makes its own command line of it, after its own checks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum FleetWork {
    /// Nothing: the facts of its host came when it joined.
    Facts,
    /// `fathom run`.
    Run(RunOrder),
    /// `fathom load`: a share of it.
    Load(LoadShare),
    /// A far end for the other members, until the member is sent away.
    Serve,
    /// `fathom run --remote`.
    Pair(PairOrder),
}

/// Numbers between two members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairOrder {
    /// What is measured to the other one.
    pub run: RunOrder,
    /// Where that accepts connections.
    pub to: SocketAddr,
    /// Its name, of which the token of its far end follows.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOrder {
    /// Selectors; empty for all metrics.
    pub metrics: Vec<String>,
    pub effort: Effort,
    /// Without the metrics that only predictions need.
    #[serde(default)]
    pub only: bool,
}

/// The share of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadShare {
    pub url: String,
    /// Each is one argument, of the list that a member accepts.
    pub options: Vec<String>,
    /// From 0.
    pub place: u32,
    /// The number of members.
    pub of: u32,
    /// What the server requires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// What fits the head of a request.
fn is_token(text: &str) -> bool {
    text.len() <= METRIC_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl FleetOrder {
    /// A secret for the measuring process, which is no argument of it: others could read that.
    pub(crate) fn server_token(&self) -> Option<&str> {
        match &self.work {
            FleetWork::Load(load) => load.token.as_deref(),
            _ => None,
        }
    }

    /// `own`: the address from which this member has joined.
    ///
    /// # Errors
    /// What of it no coordinator of this version asks for.
    pub(crate) fn check(&self, own: IpAddr) -> Result<(), FleetError> {
        let run = match &self.work {
            FleetWork::Load(LoadShare { token: Some(token), .. }) if !is_token(token) => {
                return Err(FleetError::Order("a token of the server that is none".to_owned()));
            }
            // What is in a load is checked as a command line.
            FleetWork::Facts | FleetWork::Serve | FleetWork::Load(_) => return Ok(()),
            FleetWork::Run(run) => run,
            FleetWork::Pair(PairOrder { run, to, name }) => {
                if !is_name(name) {
                    return Err(FleetError::Order("a far end without a name".to_owned()));
                }
                if !may_be_member(*to, own) {
                    return Err(FleetError::Order(format!("{to} is no address of a member")));
                }
                run
            }
        };
        let is_selector = |text: &String| text.len() <= METRIC_BYTES_MAX;
        if run.metrics.len() > METRICS_MAX || !run.metrics.iter().all(is_selector) {
            return Err(FleetError::Order("more than 1000 metrics, or a longer name".to_owned()));
        }
        Ok(())
    }
}

/// Whether the far end of a member can be there. A malicious coordinator gets no member to connect
/// to services of its own machine, or to those that a cloud offers at addresses of the link.
fn may_be_member(to: SocketAddr, own: IpAddr) -> bool {
    let is_of_link = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let (ip, own) = (to.ip().to_canonical(), own.to_canonical());
    let is_host = match ip {
        IpAddr::V4(ip) => !ip.is_broadcast() && !ip.is_multicast() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
    };
    let is_as_near = |is: &dyn Fn(IpAddr) -> bool| !is(ip) || is(own);
    let is_near = is_as_near(&|ip| ip.is_loopback()) && is_as_near(&is_of_link);
    to.port() >= PORT_MIN && is_host && is_near
}

/// The token of the far end of a member: by the secret that all share and its name, never sent.
pub(crate) fn far_token(token: &Token, name: &str) -> Token {
    Token::new(&fathom_far::proof_for(FAR_END, token, Side::Far, name, ""))
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetProgress {
    /// From 0 to 1.
    pub done: f64,
    /// What is measured.
    pub what: String,
}

impl FleetProgress {
    /// As far as it can be shown.
    pub(crate) fn plausible(self) -> Self {
        let done = if self.done.is_finite() { self.done.clamp(0.0, 1.0) } else { 0.0 };
        Self { done, what: printable(&self.what) }
    }
}

/// The hello of a member.
pub fn hello(challenge: &str) -> ToCoordinator {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    ToCoordinator::Hello { protocol: PROTOCOL, version, challenge: challenge.to_owned() }
}

/// A new challenge.
///
/// # Errors
/// If the kernel's random numbers cannot be read.
pub fn challenge() -> Result<String, FarError> {
    nonce()
}

/// The proof of a side, the member near and the coordinator far: a proof of the far-end protocol
/// does not fit.
pub fn proof_of(token: &Token, side: Side, member: &str, coordinator: &str) -> String {
    fathom_far::proof_for(CONTEXT, token, side, member, coordinator)
}

/// # Errors
/// If the other end has another version, or sends no challenge.
pub(crate) fn check_hello(found: u32, version: &str, challenge: &str) -> Result<(), FleetError> {
    if found != PROTOCOL {
        return Err(FleetError::Protocol { found, version: printable(version), own: PROTOCOL });
    }
    match is_nonce(challenge) {
        true => Ok(()),
        false => Err(FleetError::Unexpected("expected a challenge of 64 hexadecimal digits")),
    }
}

/// # Errors
/// If it is not the proof of this side.
pub(crate) fn check_proof(
    found: &str,
    token: &Token,
    side: Side,
    [member, coordinator]: [&str; 2],
) -> Result<(), FleetError> {
    let expected = proof_of(token, side, member, coordinator);
    match is_same(found.as_bytes(), expected.as_bytes()) {
        true => Ok(()),
        false => Err(FleetError::TokenWrong),
    }
}

/// A message as a line. One that is too long, as the facts of a huge host, is an error at its
/// sender.
///
/// # Errors
/// If it is longer than a line may be.
pub(crate) fn line(message: &impl Serialize) -> Result<Vec<u8>, FarError> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    if line.len() > LINE_BYTES_MAX {
        return Err(FarError::TooLong);
    }
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_end_proof_does_not_fit() {
        let token = Token::new("secret");
        let [member, coordinator] = ["a", "b"].map(|digit| digit.repeat(64));
        let challenges @ [member, coordinator] = [member.as_str(), coordinator.as_str()];
        for side in [Side::Near, Side::Far] {
            let own = proof_of(&token, side, member, coordinator);
            check_proof(&own, &token, side, challenges).unwrap();
            let of_far_end = fathom_far::proof(&token, side, member, coordinator);
            let other = if side == Side::Near { Side::Far } else { Side::Near };
            let reflected = proof_of(&token, other, member, coordinator);
            let of_other_token = proof_of(&Token::new("other"), side, member, coordinator);
            for wrong in [of_far_end, reflected, of_other_token, String::new()] {
                let checked = check_proof(&wrong, &token, side, challenges);
                assert!(matches!(checked, Err(FleetError::TokenWrong)), "{side:?} {wrong}");
            }
        }
    }

    #[test]
    fn facts_of_host_survive_the_line() {
        let mut host = Host { name: "node7".to_owned(), ..Host::default() };
        host.cpu.logical = 2;
        // Keys that are numbers.
        host.cpu.numa = [(0, vec![0, 1])].into();
        let join = Join { rank: Some(7), node: None, boot_id: "b".into(), host, named_id: None };
        let message = ToCoordinator::Join(Box::new(join));
        let text = line(&message).unwrap();
        assert_eq!(serde_json::from_slice::<ToCoordinator>(&text).unwrap(), message);
    }

    #[test]
    fn implausible_joins_and_progress_are_named() {
        let host = |name: &str| {
            let mut host = Host { name: name.to_owned(), ..Host::default() };
            host.cpu.logical = 1;
            host
        };
        let join = |host: Host, boot: &str| Join {
            rank: None,
            node: None,
            boot_id: boot.to_owned(),
            host,
            named_id: None,
        };
        assert_eq!(join(host("a"), "boot").implausible(), None);
        assert_eq!(join(host(""), "boot").implausible(), Some("host name"));
        assert_eq!(join(host("a"), "b\u{1b}[2J").implausible(), Some("boot id"));
        let id = Some("x".repeat(10_000));
        let long = Join { named_id: id, ..join(host("a"), "boot") };
        assert_eq!(long.implausible(), Some("host id"));
        let kernel = Host { kernel: "6.1\n".to_owned(), ..host("a") };
        assert_eq!(join(kernel, "boot").implausible(), Some("facts"));
        let mut cpus = host("a");
        cpus.cpu.logical = 100_000;
        assert_eq!(join(cpus, "boot").implausible(), Some("CPUs"));
        let wild = FleetProgress { done: f64::NAN, what: "\u{1b}x".to_owned() }.plausible();
        assert_eq!(wild, FleetProgress { done: 0.0, what: "x".to_owned() });
    }

    #[test]
    fn order_of_too_many_metrics_is_refused() {
        let order = |metrics: Vec<String>| FleetOrder {
            work: FleetWork::Run(RunOrder { metrics, effort: Effort::Quick, only: false }),
            by_name: false,
            together: false,
        };
        let own = IpAddr::from([10, 0, 0, 1]);
        order(vec!["cpu".to_owned(); METRICS_MAX]).check(own).unwrap();
        order(vec!["cpu".to_owned(); METRICS_MAX + 1]).check(own).unwrap_err();
        order(vec!["c".repeat(METRIC_BYTES_MAX + 1)]).check(own).unwrap_err();
    }

    #[test]
    fn only_addresses_of_members_are_connected_to() {
        let check = |to: &str, own: &str| {
            let run = RunOrder { metrics: Vec::new(), effort: Effort::Quick, only: true };
            let pair = PairOrder { run, to: to.parse().unwrap(), name: "b".to_owned() };
            let order = FleetOrder { work: FleetWork::Pair(pair), by_name: false, together: false };
            order.check(own.parse().unwrap())
        };
        for (to, own) in [
            ("10.0.0.2:40000", "10.0.0.1"),
            ("127.0.0.1:40000", "127.0.0.1"),
            ("[fd00::2]:40000", "fd00::1"),
            ("169.254.7.2:40000", "169.254.7.1"),
        ] {
            check(to, own).unwrap();
        }
        for (to, own) in [
            ("127.0.0.1:40000", "10.0.0.1"),
            ("[::1]:40000", "fd00::1"),
            ("[::ffff:127.0.0.1]:40000", "10.0.0.1"),
            ("169.254.169.254:40000", "10.0.0.1"),
            ("[fe80::1]:40000", "fd00::1"),
            ("0.0.0.0:40000", "127.0.0.1"),
            ("255.255.255.255:40000", "10.0.0.1"),
            ("224.0.0.1:40000", "10.0.0.1"),
            ("10.0.0.2:80", "10.0.0.1"),
        ] {
            assert!(check(to, own).is_err(), "{to} from {own}");
        }
        // A name, or a path behind the port, is no address.
        for wrong in ["db:5432", "10.0.0.2", "10.0.0.2:40000/x"] {
            let order = format!(
                r#"{{"work":"pair","run":{{"metrics":[],"effort":"quick"}},"to":"{wrong}","name":"b"}}"#
            );
            serde_json::from_str::<FleetWork>(&order.replace(wrong, "10.0.0.2:40000")).unwrap();
            assert!(serde_json::from_str::<FleetWork>(&order).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_far_end_has_a_token_of_its_own() {
        let token = Token::new("secret");
        let of = |token: &Token, name| far_token(token, name).bytes().to_vec();
        assert_eq!(of(&token, "a"), of(&token, "a"));
        assert_ne!(of(&token, "a"), of(&token, "b"));
        assert_ne!(of(&token, "a"), of(&Token::new("other"), "a"));
    }
}
