//! Conversations with a malicious other end, for the fuzzer in `fuzz/` and for tests, which replay
//! its corpus.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;

use fathom_record::{Disturbance, FarEnd};

use crate::near::Far;
use crate::process::converse;
use crate::protocol::channel::{Channel, LINE_BYTES_MAX};
use crate::protocol::message::{
    Orders, ProtocolClosing, ProtocolMessage, ProtocolOutcome, ProtocolWork, SetUp,
};
use crate::protocol::token::Token;
use crate::tcp_info::TcpInfo;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Stands for [`LONG`] letters, so that a short input has lines beyond the limit.
const LONG_MARK: u8 = 1;
const LONG: usize = 4 << 10;
/// Fits in the buffer of a socket.
const SENT_BYTES_MAX: usize = 120 << 10;

/// What the other end sends.
fn expanded(data: &[u8]) -> Vec<u8> {
    let mut sent = Vec::new();
    for &byte in data {
        match byte {
            LONG_MARK => sent.extend([b'x'; LONG]),
            byte => sent.push(byte),
        }
    }
    sent.truncate(SENT_BYTES_MAX);
    sent
}

/// The other end, which has sent all that it ever sends, and the channel to it.
fn ends(sent: &[u8]) -> (UnixStream, Channel) {
    let (mut other, own) = UnixStream::pair().expect("sockets");
    other.write_all(sent).expect("room");
    other.shutdown(std::net::Shutdown::Write).expect("a socket");
    (other, Channel::new(own.into()))
}

/// Asserts that each line that is a message prints as one.
fn check_messages(sent: &[u8]) {
    for line in sent.split(|&byte| byte == b'\n') {
        if let Ok(message) = serde_json::from_slice::<ProtocolMessage>(line) {
            let text = serde_json::to_vec(&message).expect("JSON");
            assert_eq!(
                serde_json::from_slice::<ProtocolMessage>(&text).expect("a message"),
                message
            );
        }
    }
}

/// The far end's conversation. An odd first byte: it requires a token.
pub fn far(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let token = (first % 2 == 1).then(|| TOKEN.to_owned());
    let sent = expanded(rest);
    check_messages(&sent);
    let (mut near, mut channel) = ends(&sent);
    let (mut asked, mut worked) = (0, 0);
    let facts = || {
        asked += 1;
        ProtocolMessage::Facts { host: serde_json::Value::Null, cpu: 0 }
    };
    let work = |_: &mut Channel, set_up: &SetUp, _: &Orders| {
        worked += 1;
        match set_up.work {
            ProtocolWork::Echo { bytes, .. } => assert!((1..=64 << 10).contains(&bytes)),
            ProtocolWork::Transfer { streams, chunk_bytes } => {
                assert!((1..=16).contains(&streams) && (64..=16 << 20).contains(&chunk_bytes));
            }
            ProtocolWork::UdpEcho { bytes, .. } => assert!((1..=1452).contains(&bytes)),
            ProtocolWork::UdpSink { bytes } => assert!((40..=1472).contains(&bytes)),
            ProtocolWork::Accept { .. } | ProtocolWork::Files => {
                assert_eq!(set_up.work.connections(), 1)
            }
        }
        assert!(set_up.congestion.as_ref().is_none_or(|name| name.len() < 16));
        let far = FarEnd { cpu: set_up.cpu, ..FarEnd::default() };
        Ok(ProtocolOutcome { far, count: 0, congestion: "cubic".to_owned(), tcp: Vec::new() })
    };
    let orders = Orders { token: token.clone(), ..Orders::new(None) };
    let outcome = converse(&mut channel, &orders, facts, work);
    assert_eq!((outcome.is_ok(), asked <= 1), (worked == 1, true));
    // The challenge is another one each time, so that no input can have the proof.
    assert!(token.is_none() || (asked, worked) == (0, 0), "no proof, but work");
    assert!(channel.pending() <= LINE_BYTES_MAX + LONG);
    // Not after its end: input that was not read would be a reset.
    near.set_nonblocking(true).expect("a socket");
    let mut answers = Vec::new();
    let error = near.read_to_end(&mut answers).expect_err("the far end is open");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let answers = String::from_utf8(answers).expect("UTF-8");
    let lines = sent.split(|&byte| byte == b'\n').count();
    assert!(answers.lines().count() <= lines.min(3));
    answers
        .lines()
        .for_each(|line| _ = serde_json::from_str::<ProtocolMessage>(line).expect("a message"));
}

/// The near end's conversation. The first byte: bit 0 a token, bit 1 the upgrade comes first, bit 2
/// work over UDP, bit 3 connections are to be accepted.
pub fn near(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let token = (first & 1 == 1).then(|| Token::new(TOKEN));
    let sent = expanded(rest);
    check_messages(&sent);
    let (_far, channel) = ends(&sent);
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 3284);
    let mut near = Far::over(channel, address);
    if first & 2 == 2 && near.upgrade().is_err() {
        return;
    }
    if near.greet(token.as_ref()).is_err() {
        return;
    }
    assert!(token.is_none(), "no proof, but accepted");
    if let Ok((host, _)) = near.host() {
        assert!(host.is_printable());
    }
    let work = match first & 12 {
        0 => ProtocolWork::Echo { bytes: 1, busy: false },
        4 => ProtocolWork::UdpEcho { bytes: 1, busy: false },
        _ => ProtocolWork::Accept { closing: ProtocolClosing::Back },
    };
    if let Ok((port, nonce)) = near.request(SetUp { work, cpu: 3, congestion: None }) {
        assert!(port >= 1024 && nonce.len() == 64);
        let udp = near.udp_port();
        assert!(udp.is_some() == work.uses_udp() && udp.is_none_or(|port| port >= 1024));
        let listens = near.listens_at();
        assert!(listens.is_some() == work.accepts());
        assert!(listens.is_none_or(|address| address.port() >= 1024));
    }
    if let Ok(outcome) = near.finish() {
        check_outcome(&outcome);
    }
}

/// Asserts that a result can be stored, added to others and printed.
fn check_outcome(outcome: &ProtocolOutcome) {
    let ProtocolOutcome { far, congestion, tcp, .. } = outcome;
    assert_eq!(far.cpu, 3);
    let facts = |it: &[TcpInfo; 2]| it[1].facts(&it[0], ["cubic", "cubic"]);
    let facts: Vec<_> = tcp.iter().flat_map(facts).collect();
    assert!(tcp.len() <= 16 && !serde_json::to_string(&facts).expect("JSON").contains("null"));
    assert!(far.reference_ns.iter().all(|ns| ns.is_finite() && *ns >= 0.0));
    let texts = far.checks.iter().flat_map(|check| [&check.name, &check.detail]);
    for text in texts.chain([congestion]) {
        assert!(text.len() <= 800 && !text.chars().any(char::is_control), "{text:?}");
    }
    // Without an overflow: as many visits as there can be.
    let add = |sum: Disturbance, _| sum.plus(&far.disturbance);
    let _ = (0..40).fold(Disturbance::default(), add);
    assert!(serde_json::to_string(far).expect("JSON").len() < LINE_BYTES_MAX);
}

/// The text of a token file, at the near end.
pub fn token(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(token) = Token::parse(text) {
        assert!(token.bytes().iter().all(u8::is_ascii_graphic));
        assert_eq!(token.bytes(), text.trim().as_bytes());
        assert!(!format!("{token:?}").contains(text.trim()) || text.trim().len() < 9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inputs of a fuzz target.
    fn corpus(target: &str) -> Vec<Vec<u8>> {
        let folder = format!("{}/../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
        let entries = std::fs::read_dir(&folder).expect("a corpus");
        let read = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry?.path());
        entries.map(|entry| read(entry).expect("a file")).collect()
    }

    #[test]
    fn corpus_of_the_fuzzer_is_handled() {
        for (target, run) in
            [("control_far", far as fn(&[u8])), ("control_near", near), ("token", token)]
        {
            let inputs = corpus(target);
            assert!(inputs.len() >= 10, "{target}: {}", inputs.len());
            inputs.iter().for_each(|input| run(input));
        }
    }
}
