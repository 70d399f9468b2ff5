//! A client that sends exact bytes and reads one response at a time.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    arrived: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let mut named = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        Self { stream, arrived: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A service that refuses early may close before it has read all.
        let _ = self.stream.write_all(bytes.as_ref());
    }

    pub(crate) fn request(&mut self, method: &str, target: &str, fields: &[&str]) -> Reply {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        self.send(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        self.reply_to(method)
    }

    pub(crate) fn get(&mut self, target: &str) -> Reply {
        self.request("GET", target, &[])
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.reply_to("GET")
    }

    /// Reads one response, with a body as long as its head says.
    pub(crate) fn reply_to(&mut self, method: &str) -> Reply {
        let end = loop {
            if let Some(at) = self.arrived.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.read() > 0, "closed after {:?}", String::from_utf8_lossy(&self.arrived));
        };
        let head = String::from_utf8(self.arrived.drain(..end).collect()).expect("UTF-8");
        let status = head[9..12].parse().expect("a status");
        let mut reply = Reply { status, head, body: Vec::new() };
        let length = reply.field("Content-Length").map_or(0, |text| text.parse().expect("digits"));
        let length = if method == "HEAD" { 0 } else { length };
        while self.arrived.len() < length {
            assert!(self.read() > 0, "closed after {} of {length} bytes", self.arrived.len());
        }
        reply.body = self.arrived.drain(..length).collect();
        reply
    }

    fn read(&mut self) -> usize {
        let mut bytes = vec![0; 1 << 16];
        let read = self.stream.read(&mut bytes).expect("a response in time");
        self.arrived.extend_from_slice(&bytes[..read]);
        read
    }

    /// What arrives until the service closes the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.arrived);
        let mut bytes = [0; 1 << 16];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return rest,
                Ok(read) => rest.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return rest,
                Err(error) => panic!("not closed: {error}"),
            }
        }
    }

    pub(crate) fn assert_closed(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }

    pub(crate) fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).expect("it is open");
    }
}
