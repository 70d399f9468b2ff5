//! One client: its connection and the position in its present response. No system calls.

use std::os::fd::OwnedFd;

use fathom_fileio::Sum;
use fathom_http::{Framing, PartialHead, coded};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

use super::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Between two requests.
    Idle,
    Connecting,
    /// The request is sent in part.
    Sending,
    /// The request is sent, the head of the response incomplete.
    Waiting,
    Receiving,
}

/// What received bytes led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Incomplete,
    Complete,
}

pub(super) struct Client {
    pub(super) socket: Option<OwnedFd>,
    pub(super) state: State,
    pub(super) file: u32,
    /// Bytes of the request that are sent.
    pub(super) sent: u32,
    /// When the request was sent, or the connect begun if it needed one.
    pub(super) begun_ns: u64,
    /// When it was due, in an open loop.
    pub(super) due_ns: u64,
    /// When the present state times out.
    pub(super) deadline_ns: u64,
    pub(super) status: u16,
    pub(super) body_bytes: u64,
    /// The sums of the body so far, if bodies are verified.
    pub(super) sum: Option<Sum>,
    framing: Framing,
    keeps: bool,
    /// Responses on this connection.
    pub(super) responses: u32,
    head: PartialHead,
    pub(super) random: Xoshiro256PlusPlus,
}

impl Client {
    pub(super) fn new(seed: u64, number: u32) -> Self {
        let seed = seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self {
            socket: None,
            state: State::Idle,
            file: 0,
            sent: 0,
            begun_ns: 0,
            due_ns: 0,
            deadline_ns: 0,
            status: 0,
            body_bytes: 0,
            sum: None,
            framing: Framing::Length(0),
            keeps: true,
            responses: 0,
            head: PartialHead::default(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    pub(super) fn begin_response(&mut self) {
        self.state = State::Waiting;
        self.body_bytes = 0;
        self.sum = self.sum.map(|_| Sum::default());
        self.head.clear();
    }

    /// Whether the server keeps the connection open after this response.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Bytes that the body still lacks, if its length is known and its head complete.
    pub(super) fn missing(&self) -> Option<u64> {
        match (self.state, self.framing) {
            (State::Receiving, Framing::Length(missing)) => Some(missing),
            _ => None,
        }
    }

    /// Accounts for received bytes. `expected`: the length of the file, if known. `as_coded`: a
    /// coding of the body was asked for.
    pub(super) fn receive(
        &mut self,
        data: &[u8],
        expected: Option<u64>,
        as_coded: bool,
    ) -> Result<Progress, Fault> {
        if self.state == State::Receiving {
            return self.receive_body(data);
        }
        let mut is_coded = false;
        let field = |status, name: &str, value: &[u8]| {
            let is_coding = name.len() == 16 && name.eq_ignore_ascii_case("content-encoding");
            is_coded |= is_coding && (200..300).contains(&status) && coded(value);
        };
        let Some((head, body)) = self.head.add(data, field)? else {
            return Ok(Progress::Incomplete);
        };
        if is_coded && !as_coded {
            return Err(Fault::Coded);
        }
        (self.status, self.framing, self.keeps) = (head.status, head.framing, head.keeps);
        self.state = State::Receiving;
        if let (200, Framing::Length(length), Some(expected)) =
            (head.status, head.framing, expected)
            && length != expected
        {
            return Err(Fault::WrongLength);
        }
        self.receive_body(body)
    }

    fn receive_body(&mut self, data: &[u8]) -> Result<Progress, Fault> {
        let (body_bytes, sum) = (&mut self.body_bytes, &mut self.sum);
        let is_complete = self.framing.feed_to(data, |part| {
            if let Some(sum) = sum {
                sum.add(*body_bytes, part);
            }
            *body_bytes += part.len() as u64;
        })?;
        Ok(if is_complete { Progress::Complete } else { Progress::Incomplete })
    }

    /// What the end of the connection means here.
    pub(super) fn end(&mut self) -> Result<Progress, Fault> {
        match (self.state, self.framing) {
            (State::Receiving, Framing::UntilClose) => Ok(Progress::Complete),
            (State::Receiving, _) => Err(Fault::Truncated),
            _ if !self.head.is_empty() => Err(Fault::Truncated),
            _ => Err(Fault::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_http::EXCESS;

    use super::*;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";

    #[test]
    fn response_is_complete_in_pieces_of_any_size() {
        for piece in 1..=RESPONSE.len() {
            let mut client = Client::new(1, 1);
            client.begin_response();
            let mut found = Vec::new();
            for part in RESPONSE.chunks(piece) {
                found.push(client.receive(part, Some(10), false).unwrap());
            }
            assert_eq!(found.pop(), Some(Progress::Complete), "pieces of {piece}");
            assert!(found.iter().all(|one| *one == Progress::Incomplete), "pieces of {piece}");
            assert_eq!((client.body_bytes, client.status), (10, 200));
        }
    }

    #[test]
    fn wrong_lengths_are_faults() {
        let mut client = Client::new(1, 1);
        client.begin_response();
        assert_eq!(client.receive(RESPONSE, Some(11), false), Err(Fault::WrongLength));
        client.begin_response();
        assert_eq!(
            client.receive(&[RESPONSE, b"x"].concat(), None, false),
            Err(Fault::BadResponse(EXCESS))
        );
        client.begin_response();
        client.receive(&RESPONSE[..RESPONSE.len() - 1], None, false).unwrap();
        assert_eq!((client.missing(), client.end()), (Some(1), Err(Fault::Truncated)));
    }

    #[test]
    fn coding_that_was_not_asked_for_is_a_fault() {
        let of = |field: &str, as_coded| {
            let head = format!("HTTP/1.1 200 OK\r\n{field}\r\nContent-Length: 1\r\n\r\n");
            let mut client = Client::new(1, 1);
            client.begin_response();
            // The head comes in two pieces.
            client.receive(&head.as_bytes()[..30], None, as_coded)?;
            client.receive(&[&head.as_bytes()[30..], b"x"].concat(), None, as_coded)
        };
        assert_eq!(of("content-encoding: gzip", false), Err(Fault::Coded));
        assert_eq!(of("Content-Encoding: gzip", true), Ok(Progress::Complete));
        assert_eq!(of("Content-Encoding: identity", false), Ok(Progress::Complete));
    }

    #[test]
    fn state_of_a_client_is_below_one_kibibyte() {
        assert!(size_of::<Client>() <= 256, "{}", size_of::<Client>());
    }
}
