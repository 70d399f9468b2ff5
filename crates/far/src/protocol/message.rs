//! The messages of the control connection.

use std::path::PathBuf;

use fathom_record::FarEnd;
use fathom_record::plausible::{CONGESTION, VISIT};
use serde::{Deserialize, Serialize};

use crate::protocol::error::FarError;
use crate::protocol::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, DATAGRAM_BYTES, HEAD_BYTES, PROTOCOL, STREAMS_MAX, printable,
};
use crate::tcp_info::TcpInfo;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum ProtocolMessage {
    /// First, by the near end, and its answer.
    Hello(ProtocolHello),
    /// By the near end, if the far end has a challenge.
    Proof { proof: String },
    /// By the near end: asks for the facts of the far host.
    Host,
    Facts {
        /// A [`fathom_record::Host`]; not as such, because the tag of a message does not go with
        /// maps whose keys are numbers.
        host: serde_json::Value,
        /// The CPU to run on.
        cpu: u32,
    },
    /// By the near end: the work.
    SetUp(SetUp),
    /// The far end accepts the data connections, each of which begins with the nonce.
    Ready {
        port: u16,
        nonce: String,
        /// Of work over UDP.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        udp_port: Option<u16>,
        /// Where it accepts the connections of the work itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        listen_port: Option<u16>,
    },
    /// By the near end, once it has the data connections.
    Go,
    /// By the far end, after the end of the data connections.
    Result(Box<ProtocolOutcome>),
    /// By the far end, before it ends.
    Error {
        text: String,
        /// Whether a limit of its host was reached.
        #[serde(default)]
        is_limit: bool,
    },
}

/// A far end without work or message for this long ends.
pub const IDLE_NS: u64 = 30_000_000_000;

/// What a far end gets from the process that starts it, as JSON on standard input.
#[derive(Serialize, Deserialize)]
pub struct Orders {
    /// The far end is killed when this process ends.
    pub parent: u32,
    /// Required from the near end.
    pub token: Option<String>,
    pub idle_ns: u64,
    /// Where it may write the files that it receives, without names.
    #[serde(default)]
    pub folder: Option<PathBuf>,
}

impl Orders {
    /// Orders by this process.
    pub fn new(token: Option<String>) -> Self {
        Self { parent: std::process::id(), token, idle_ns: IDLE_NS, folder: None }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProtocolHello {
    pub protocol: u32,
    /// Of the program.
    pub version: String,
    /// 64 hexadecimal digits. From a far end without a token: absent.
    pub challenge: Option<String>,
    /// The far end's proof that it has the token.
    pub proof: Option<String>,
}

impl ProtocolHello {
    pub fn new(challenge: Option<String>, proof: Option<String>) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self { protocol: PROTOCOL, version, challenge, proof }
    }

    /// # Errors
    /// If the other end has another version of the protocol.
    pub(crate) fn check(&self) -> Result<(), FarError> {
        if self.protocol == PROTOCOL {
            return Ok(());
        }
        let version = printable(&self.version);
        Err(FarError::Protocol { found: self.protocol, version })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetUp {
    pub work: ProtocolWork,
    /// The CPU to pin to.
    pub cpu: u32,
    /// TCP congestion control of the data connections, if the host has it.
    pub congestion: Option<String>,
}

const REQUEST_BYTES_MAX: u32 = 64 << 10;
/// One Ethernet frame, over IPv6 too: a larger datagram is fragmented.
const DATAGRAM_BYTES_MAX: u32 = 1452;

impl SetUp {
    /// Whether a far end does it.
    pub(crate) fn check(&self) -> Result<(), FarError> {
        match self.work {
            ProtocolWork::Echo { bytes, .. } if !(1..=REQUEST_BYTES_MAX).contains(&bytes) => {
                return Err(FarError::Unexpected("expected requests of 1 to 65536 bytes"));
            }
            ProtocolWork::Transfer { streams, .. } if !(1..=STREAMS_MAX).contains(&streams) => {
                return Err(FarError::Unexpected("expected 1 to 16 streams"));
            }
            ProtocolWork::Transfer { chunk_bytes, .. }
                if !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_bytes) =>
            {
                return Err(FarError::Unexpected("expected chunks of 64 bytes to 16 MiB"));
            }
            ProtocolWork::UdpEcho { bytes, .. } if !(1..=DATAGRAM_BYTES_MAX).contains(&bytes) => {
                return Err(FarError::Unexpected("expected datagrams of 1 to 1452 bytes"));
            }
            ProtocolWork::UdpSink { bytes }
                if !(HEAD_BYTES as u32..=DATAGRAM_BYTES).contains(&bytes) =>
            {
                return Err(FarError::Unexpected("expected datagrams of 40 to 1472 bytes"));
            }
            ProtocolWork::Echo { .. } | ProtocolWork::Transfer { .. } => {}
            ProtocolWork::UdpEcho { .. }
            | ProtocolWork::UdpSink { .. }
            | ProtocolWork::Accept { .. }
            | ProtocolWork::Files => {}
        }
        match &self.congestion {
            Some(name) if !is_congestion(name) => {
                Err(FarError::Unexpected("expected a congestion control of 1 to 15 characters"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether it can be the name of a TCP congestion control.
fn is_congestion(name: &str) -> bool {
    CONGESTION.contains(&(name.len() as u64)) && name.bytes().all(|b| b.is_ascii_graphic())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum ProtocolWork {
    /// Sends each request back.
    Echo {
        /// Bytes of a request.
        bytes: u32,
        /// Whether to poll for a request instead of sleeping.
        busy: bool,
    },
    /// Receives and sends blocks, as the near end requests.
    Transfer {
        /// Data connections.
        streams: u32,
        /// Bytes of a call.
        chunk_bytes: u32,
    },
    /// Sends each datagram back. The data connection stays open meanwhile: its end ends the work.
    UdpEcho {
        /// Bytes of a datagram; others are ignored.
        bytes: u32,
        busy: bool,
    },
    /// Counts datagrams, and answers those that ask for it. The end is that of `UdpEcho`.
    UdpSink {
        /// Bytes of a datagram; others are ignored.
        bytes: u32,
    },
    /// Accepts connections one by one, and closes each after the near end.
    Accept { closing: ProtocolClosing },
    /// Receives files, by the orders over the data connection.
    Files,
}

/// How a far end closes a connection that the near end has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProtocolClosing {
    /// By its own FIN.
    Back,
    /// By RST, which leaves no TIME_WAIT at the near end.
    Reset,
}

impl ProtocolWork {
    /// The number of data connections.
    pub(crate) fn connections(self) -> usize {
        match self {
            Self::Transfer { streams, .. } => streams as usize,
            Self::Echo { .. } | Self::UdpEcho { .. } | Self::UdpSink { .. } => 1,
            Self::Accept { .. } | Self::Files => 1,
        }
    }

    /// Whether it listens for connections beside the data connections.
    pub(crate) fn accepts(self) -> bool {
        matches!(self, Self::Accept { .. } | Self::Files)
    }

    /// Whether a UDP socket is beside the data connections.
    pub(crate) fn uses_udp(self) -> bool {
        matches!(self, Self::UdpEcho { .. } | Self::UdpSink { .. })
    }
}

/// The far end's report of its work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProtocolOutcome {
    pub far: FarEnd,
    /// Requests that were answered, connections that were closed, or bytes of blocks that were
    /// transferred.
    pub count: u64,
    /// TCP congestion control of the data connections.
    pub congestion: String,
    /// Of each data connection, before and after the work.
    #[serde(default)]
    pub tcp: Vec<[TcpInfo; 2]>,
}

const LOOPS_MAX: usize = 64;
const CHECKS_MAX: usize = 16;

impl ProtocolOutcome {
    /// What of it a far end that was set up on this CPU cannot report: other numbers and texts must
    /// not reach a record.
    pub(crate) fn implausible(&self, cpu: u32) -> Option<&'static str> {
        let Self { far, count, congestion, tcp } = self;
        let counters = serde_json::to_value(&far.disturbance).unwrap_or_default();
        let counters = counters.as_object().into_iter().flat_map(|all| all.values());
        let mut counters = counters.filter_map(serde_json::Value::as_u64);
        let is_time = |ns: &f64| (0.0..=*VISIT.end() as f64).contains(ns);
        let is_text = |text: &str| text == printable(text);
        let are_checks = far.checks.iter().all(|it| is_text(&it.name) && is_text(&it.detail));
        let are_times = far.reference_ns.len() <= LOOPS_MAX && far.reference_ns.iter().all(is_time);
        let are_few = tcp.len() <= STREAMS_MAX as usize;
        [
            ("CPU number", far.cpu == cpu),
            ("count of the work", VISIT.contains(count)),
            ("disturbance", counters.all(|it| VISIT.contains(&it))),
            ("reference loops", are_times),
            ("checks", far.checks.len() <= CHECKS_MAX && are_checks),
            ("congestion control", is_congestion(congestion)),
            ("TCP_INFO", are_few && tcp.iter().flatten().all(TcpInfo::is_plausible)),
        ]
        .into_iter()
        .find_map(|(name, is_plausible)| (!is_plausible).then_some(name))
    }
}
