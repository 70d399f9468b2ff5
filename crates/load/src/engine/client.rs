//! One client: its connection and the position in its present response. No system calls.

use fathom_fileio::XorSum;
use fathom_http::{Framing, PartialHead, Stream, Url, coded};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

use super::{Fault, REDIRECTS_MAX, redirects};
use crate::requests::Requests;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientState {
    /// Between two requests.
    Idle,
    Connecting,
    /// The TLS handshake.
    Securing,
    /// The request is sent in part.
    Sending,
    /// The request is sent, the head of the response incomplete.
    Waiting,
    Receiving,
}

/// What a response has to be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// The length of the file, if known.
    pub(super) length: Option<u64>,
    /// A coding of the body was asked for.
    pub(super) as_coded: bool,
    /// Only the head was asked for.
    pub(super) is_head: bool,
    /// Redirects are followed.
    pub(super) follows: bool,
}

/// Where a redirect led.
pub(super) struct Detour {
    pub(super) request: Vec<u8>,
    pub(super) path: String,
    /// Redirects so far.
    pub(super) count: u32,
}

/// What received bytes led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Incomplete,
    Complete,
}

pub(super) struct Client {
    pub(super) stream: Option<Stream>,
    pub(super) state: ClientState,
    pub(super) file: u32,
    /// Bytes of the request that are sent.
    pub(super) sent: usize,
    /// When the request was sent, or the connect begun if it needed one.
    pub(super) begun_ns: u64,
    /// When the connection was ready for the request.
    pub(super) ready_ns: u64,
    /// When the first byte of the response arrived; 0 before.
    pub(super) first_ns: u64,
    /// When it was due, in an open loop.
    pub(super) due_ns: u64,
    /// When the present state times out.
    pub(super) deadline_ns: u64,
    pub(super) status: u16,
    pub(super) body_bytes: u64,
    /// The part of the response that was counted as it arrived.
    pub(super) counted: f64,
    /// The sums of the body so far, if bodies are verified.
    pub(super) sum: Option<XorSum>,
    framing: Framing,
    keeps: bool,
    /// Responses on this connection.
    pub(super) responses: u32,
    head: PartialHead,
    /// Of a redirect that is to be followed.
    pub(super) location: Option<String>,
    pub(super) detour: Option<Box<Detour>>,
    pub(super) random: Xoshiro256PlusPlus,
}

impl Client {
    pub(super) fn new(seed: u64, number: u32) -> Self {
        let seed = seed ^ u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self {
            stream: None,
            state: ClientState::Idle,
            file: 0,
            sent: 0,
            begun_ns: 0,
            ready_ns: 0,
            first_ns: 0,
            due_ns: 0,
            deadline_ns: 0,
            status: 0,
            body_bytes: 0,
            counted: 0.0,
            sum: None,
            framing: Framing::Length(0),
            keeps: true,
            responses: 0,
            head: PartialHead::default(),
            location: None,
            detour: None,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    pub(super) fn begin_response(&mut self) {
        self.state = ClientState::Waiting;
        (self.body_bytes, self.first_ns, self.counted) = (0, 0, 0.0);
        self.sum = self.sum.map(|_| XorSum::default());
        self.head.clear();
    }

    /// Whether the server keeps the connection open after this response.
    pub(super) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Bytes that the body still lacks, if its length is known and its head complete.
    pub(super) fn missing(&self) -> Option<u64> {
        match (self.state, self.framing) {
            (ClientState::Receiving, Framing::Length(missing)) => Some(missing),
            _ => None,
        }
    }

    /// The share of a body of known length that so many bytes are, of a response that counts.
    pub(super) fn part(&self, bytes: u64) -> f64 {
        let all = self.missing().map_or(0, |missing| self.body_bytes + missing);
        if self.is_accepted() && all > 0 { bytes as f64 / all as f64 } else { 0.0 }
    }

    pub(super) fn is_accepted(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Accounts for received bytes.
    pub(super) fn receive(&mut self, data: &[u8], asked: Asked) -> Result<Progress, Fault> {
        if self.state == ClientState::Receiving {
            return self.receive_body(data);
        }
        let mut is_coded = false;
        let location = &mut self.location;
        let field = |status, name: &str, value: &[u8]| {
            if asked.follows && redirects(status) && name.eq_ignore_ascii_case("location") {
                *location = Some(String::from_utf8_lossy(value).into_owned());
            }
            let is_coding = name.len() == 16 && name.eq_ignore_ascii_case("content-encoding");
            is_coded |= is_coding && (200..300).contains(&status) && coded(value);
        };
        let Some((head, body)) = self.head.add(data, field)? else {
            return Ok(Progress::Incomplete);
        };
        if is_coded && !asked.as_coded {
            return Err(Fault::Coded);
        }
        (self.status, self.framing, self.keeps) = (head.status, head.framing, head.keeps);
        self.state = ClientState::Receiving;
        if asked.is_head {
            self.framing = Framing::Length(0);
        } else if let (200, Framing::Length(length), Some(expected)) =
            (head.status, head.framing, asked.length)
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

    /// Prepares the request that a redirect asks for.
    pub(super) fn follow(&mut self, base: &Url, requests: &Requests) -> Result<(), Fault> {
        let location = self.location.take().ok_or(Fault::Redirect("without Location"))?;
        let (from, count) = match &self.detour {
            None => (requests.path(self.file), 1),
            Some(detour) => (detour.path.clone(), detour.count + 1),
        };
        if count > REDIRECTS_MAX {
            return Err(Fault::Redirect("more than 5 times"));
        }
        let to = Url { path: from, ..base.clone() }.joined(&location);
        let to = to.filter(|to| to.has_origin_of(base));
        let path = to.ok_or(Fault::Redirect("to another scheme, host or port"))?.path;
        let request = requests.towards(self.file, &path);
        self.detour = Some(Box::new(Detour { request, path, count }));
        Ok(())
    }

    /// What the end of a connection by TLS means that the server did not announce: no body ends
    /// with it.
    pub(super) fn cut(&mut self) -> Result<Progress, Fault> {
        match self.end()? {
            Progress::Complete => Err(Fault::Truncated),
            progress => Ok(progress),
        }
    }

    /// What the end of the connection means here.
    pub(super) fn end(&mut self) -> Result<Progress, Fault> {
        match (self.state, self.framing) {
            (ClientState::Receiving, Framing::UntilClose) => Ok(Progress::Complete),
            (ClientState::Receiving, _) => Err(Fault::Truncated),
            _ if !self.head.is_empty() => Err(Fault::Truncated),
            _ => Err(Fault::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use fathom_http::EXCESS;

    use super::*;
    use crate::requests::Fields;

    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789";

    fn of_length(length: u64) -> Asked {
        Asked { length: Some(length), ..Asked::default() }
    }

    #[test]
    fn redirects_are_followed_within_the_origin() {
        let base = Url::parse("http://a:81/x/y").unwrap();
        let files = [("/x/y".to_owned(), None)];
        let requests = Requests::new(&files, &Fields { host: "a:81".to_owned(), ..<_>::default() });
        let mut client = Client::new(1, 1);
        let mut follow = |location: Option<&str>| {
            client.location = location.map(str::to_owned);
            client.follow(&base, &requests)?;
            let detour = client.detour.as_ref().unwrap();
            Ok(String::from_utf8(detour.request.clone()).unwrap())
        };
        let of = |path: &str| Ok(format!("GET {path} HTTP/1.1\r\nHost: a:81\r\n\r\n"));
        let fault = |text| Err(Fault::Redirect(text));
        assert_eq!(follow(None), fault("without Location"));
        assert_eq!(follow(Some("https://a:81/")), fault("to another scheme, host or port"));
        assert_eq!(follow(Some("http://b:81/")), fault("to another scheme, host or port"));
        assert_eq!(follow(Some("z?q")), of("/x/z?q"));
        assert_eq!(follow(Some("http://A:81/w/")), of("/w/"));
        assert_eq!(follow(Some("v")), of("/w/v"));
        for _ in 3..REDIRECTS_MAX {
            assert_eq!(follow(Some("/u")), of("/u"));
        }
        assert_eq!(follow(Some("/u")), fault("more than 5 times"));
    }

    #[test]
    fn response_to_head_has_no_body() {
        let mut client = Client::new(1, 1);
        client.begin_response();
        let asked = Asked { is_head: true, ..of_length(11) };
        let head = &RESPONSE[..RESPONSE.len() - 10];
        assert_eq!(client.receive(head, asked), Ok(Progress::Complete));
        client.begin_response();
        assert_eq!(client.receive(RESPONSE, asked), Err(Fault::BadResponse(EXCESS)));
    }

    #[test]
    fn response_is_complete_in_pieces_of_any_size() {
        for piece in 1..=RESPONSE.len() {
            let mut client = Client::new(1, 1);
            client.begin_response();
            let mut found = Vec::new();
            for part in RESPONSE.chunks(piece) {
                found.push(client.receive(part, of_length(10)).unwrap());
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
        assert_eq!(client.receive(RESPONSE, of_length(11)), Err(Fault::WrongLength));
        client.begin_response();
        assert_eq!(
            client.receive(&[RESPONSE, b"x"].concat(), Asked::default()),
            Err(Fault::BadResponse(EXCESS))
        );
        client.begin_response();
        client.receive(&RESPONSE[..RESPONSE.len() - 1], Asked::default()).unwrap();
        assert_eq!((client.missing(), client.end()), (Some(1), Err(Fault::Truncated)));
    }

    #[test]
    fn coding_that_was_not_asked_for_is_a_fault() {
        let of = |field: &str, as_coded| {
            let head = format!("HTTP/1.1 200 OK\r\n{field}\r\nContent-Length: 1\r\n\r\n");
            let mut client = Client::new(1, 1);
            client.begin_response();
            // The head comes in two pieces.
            let asked = Asked { as_coded, ..Asked::default() };
            client.receive(&head.as_bytes()[..30], asked)?;
            client.receive(&[&head.as_bytes()[30..], b"x"].concat(), asked)
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
