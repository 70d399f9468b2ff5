//! Malicious members and a malicious coordinator, for the fuzzer in `fuzz/` and for tests, which
//! replay its corpus.

use std::cell::RefCell;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use fathom_far::{Channel, LINE_BYTES_MAX, Token};
use fathom_record::{Effort, Host};

use crate::coordinator::fuzz::{Greeted, Greeting, Item, Roster, Wire};
use crate::coordinator::{CoordinatorPlan, Ended, Present, Skew};
use crate::member::{Local, Membership, run};
use crate::protocol::{FleetOrder, FleetWork, Join, RunOrder, ToCoordinator, ToMember, line};

/// From which members join.
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Members of which a line can be.
const MEMBERS: usize = 3;
/// Fits in the buffer of a socket.
const SENT_BYTES_MAX: usize = 60 << 10;

/// What a coordinator hears. The first byte has bits: together, one at a time, same host. Each line
/// begins with a digit: `9` is a stranger; `0` to `2` are members, which exist from their own join
/// on, or from `j`, a usual one; `8` lets a minute pass.
pub fn coordinator(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let work = |_: usize, _: usize, _: &[Option<Present<'_>>]| {
        let metrics = vec!["cpu".to_owned()];
        Some(FleetWork::Run(RunOrder { metrics, effort: Effort::Quick, only: false }))
    };
    let plan = CoordinatorPlan {
        token: Token::new(TOKEN),
        expected: MEMBERS,
        join_ns: 300_000_000_000,
        same_host: first & 4 > 0,
        together: first & 1 > 0,
        at_once: if first & 2 > 0 { 1 } else { MEMBERS },
        rounds: &|_| 1,
        work: &work,
        clock: || 0,
    };
    let mut roster = Roster::new(&plan);
    let mut greeting = Some(Greeting::Hello);
    let (mut now_ns, mut orders) = (0, [0; MEMBERS]);
    // Members by the digits of their lines.
    let mut places: [Option<usize>; MEMBERS] = [None; MEMBERS];
    for text in rest.split(|&byte| byte == b'\n') {
        let Some((digit, text)) = text.split_first() else { continue };
        now_ns += 1_000;
        if *digit == b'8' {
            now_ns += 60_000_000_000;
            for (at, why) in roster.overdue(now_ns) {
                assert!(roster.lose(at, &why));
            }
        }
        let message = match text {
            b"j" => Some(ToCoordinator::Join(Box::new(join(*digit)))),
            text => heard(text),
        };
        match (usize::from(digit.wrapping_sub(b'0')), message) {
            (9, Some(message)) => {
                let hello = greeting.take().map(|it| it.hears(message, &plan.token));
                match hello {
                    Some(Ok(Greeted::Goes(next, _))) => greeting = Some(next),
                    // The challenge is another one each time, so that no input can have the proof.
                    Some(Ok(Greeted::Joins(_))) => panic!("no proof, but joined"),
                    Some(Err(_)) | None => {}
                }
            }
            (digit, Some(message)) if digit < MEMBERS => match (places[digit], message) {
                (None, ToCoordinator::Join(join)) => {
                    places[digit] = roster.admit(*join, OWN, now_ns).ok()
                }
                (None, _) => {}
                (Some(at), message) => match roster.heard(at, message, now_ns) {
                    Ok(answer) => answer.iter().for_each(check),
                    Err(why) => {
                        assert!(!why.chars().any(char::is_control), "{why:?}");
                        roster.lose(at, &why);
                    }
                },
            },
            _ => {}
        }
        for (at, message) in roster.advance(0, now_ns) {
            check(&message);
            orders[at] += usize::from(matches!(message, ToMember::Order(_)));
        }
        let counts = roster.counts();
        assert!(counts.delivered == 0, "nothing has delivered");
        assert!(counts.lost + counts.measuring <= counts.joined && counts.joined <= MEMBERS);
        assert!((0.0..=1.0).contains(&counts.done));
    }
    assert!(orders.iter().all(|orders| *orders <= 1), "an order was given twice");
    roster.ended().0.iter().for_each(check_ended);
}

fn check_ended(ended: &Ended) {
    assert!(ended.member.host.is_printable() && ended.lost.is_some());
    let is_number = |skew: Skew| skew.ns.is_finite() && skew.error_ns.is_finite();
    assert!(ended.skew.is_none_or(is_number));
}

/// Members have one machine, and an id that clones share.
fn join(digit: u8) -> Join {
    let mut host = Host { name: format!("m{digit}"), ..Host::default() };
    (host.id, host.cpu.logical) = (Some("of an image".to_owned()), 1);
    let named_id = Some(format!("of m{digit}"));
    Join { rank: None, node: None, boot_id: "of a machine".to_owned(), host, named_id }
}

/// The first whole line, by way of the connection of a coordinator.
fn heard(text: &[u8]) -> Option<ToCoordinator> {
    let (mut other, own) = UnixStream::pair().expect("sockets");
    let text = &text[..text.len().min(SENT_BYTES_MAX)];
    other.write_all(text).and_then(|()| other.write_all(b"\n")).expect("room");
    let mut wire = Wire::new(own.into());
    wire.fill().expect("a connection");
    match wire.next() {
        Ok(Some(Item::Line(line))) => serde_json::from_slice(&line).ok(),
        Ok(_) | Err(_) => None,
    }
}

/// A message that is sent fits in a line, and is the same at the other end.
fn check(message: &ToMember) {
    let text = line(message).expect("a short line");
    assert!(text.len() <= LINE_BYTES_MAX + 1);
    assert_eq!(serde_json::from_slice::<ToMember>(&text).expect("a message"), *message);
}

/// What a member hears after the greeting: it starts nothing but what its own arguments say.
pub fn member(data: &[u8]) {
    let (mut coordinator, own) = UnixStream::pair().expect("sockets");
    coordinator.write_all(&data[..data.len().min(SENT_BYTES_MAX)]).expect("room");
    coordinator.shutdown(std::net::Shutdown::Write).expect("a socket");
    let orders = RefCell::new(Vec::new());
    let arguments = |order: &FleetOrder, _: &Local<'_>| {
        orders.borrow_mut().push(order.clone());
        Err("no".to_owned())
    };
    let membership = Membership {
        addresses: Vec::new(),
        token: Token::new(TOKEN),
        join: join(b'0'),
        connect_ns: 0,
        waits: &|_| {},
        program: PathBuf::from("/nonexistent"),
        arguments: &arguments,
    };
    let (stop, _other) = UnixStream::pair().expect("sockets");
    let ended = run(Channel::new(own.into()), &membership, OWN, std::os::fd::AsFd::as_fd(&stop));
    if let Err(error) = ended {
        let text = error.to_string();
        assert!(text.chars().count() < 500 && !text.chars().any(char::is_control), "{text:?}");
    }
    for FleetOrder { work, .. } in orders.take() {
        if let FleetWork::Run(run) = work {
            assert!(run.metrics.len() <= 1000 && run.metrics.iter().all(|it| it.len() <= 1000));
        }
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
        let targets = [("fleet_coordinator", coordinator as fn(&[u8])), ("fleet_member", member)];
        for (target, run) in targets {
            let inputs = corpus(target);
            assert!(inputs.len() >= 10, "{target}: {}", inputs.len());
            inputs.iter().for_each(|input| run(input));
        }
    }
}
