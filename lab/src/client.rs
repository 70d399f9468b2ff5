//! An HTTP client that sends exact bytes and reads one response at a time. It shares no code with
//! what it tests.

use std::io::{self, Error, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A client that waits longer was not answered.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct LabClient {
    pub stream: TcpStream,
    arrived: Vec<u8>,
}

#[derive(Debug)]
pub struct ClientReply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl ClientReply {
    pub fn field(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        let mut named = fields.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl LabClient {
    /// # Panics
    /// If nothing listens there.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        stream.set_nodelay(true).expect("an option");
        Self { stream, arrived: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // A service that refuses early may close before it has read all.
        let _ = self.stream.write_all(bytes.as_ref());
    }

    /// # Errors
    /// If no response comes.
    pub fn try_request(
        &mut self,
        method: &str,
        target: &str,
        fields: &[&str],
    ) -> io::Result<ClientReply> {
        let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
        self.send(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        self.reply_to(method)
    }

    /// # Panics
    /// If no response comes.
    pub fn request(&mut self, method: &str, target: &str, fields: &[&str]) -> ClientReply {
        self.try_request(method, target, fields).expect("a response")
    }

    /// # Panics
    /// If no response comes.
    pub fn get(&mut self, target: &str) -> ClientReply {
        self.request("GET", target, &[])
    }

    /// # Panics
    /// If no response comes.
    pub fn reply(&mut self) -> ClientReply {
        self.reply_to("GET").expect("a response")
    }

    /// Reads one response, with a body as long as its head says.
    ///
    /// # Errors
    /// If none comes.
    ///
    /// # Panics
    /// If it is malformed.
    pub fn reply_to(&mut self, method: &str) -> io::Result<ClientReply> {
        let end = loop {
            if let Some(at) = self.arrived.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.read()?;
        };
        let head = String::from_utf8(self.arrived.drain(..end).collect()).expect("UTF-8");
        let status = head[9..12].parse().expect("a status");
        let mut reply = ClientReply { status, head, body: Vec::new() };
        let length = reply.field("Content-Length").map_or(0, |text| text.parse().expect("digits"));
        let length = if method == "HEAD" { 0 } else { length };
        while self.arrived.len() < length {
            self.read()?;
        }
        reply.body = self.arrived.drain(..length).collect();
        Ok(reply)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; 1 << 16];
        let read = self.stream.read(&mut bytes)?;
        self.arrived.extend_from_slice(&bytes[..read]);
        let text = || format!("closed after {:?}", String::from_utf8_lossy(&self.arrived));
        if read > 0 { Ok(()) } else { Err(Error::new(ErrorKind::UnexpectedEof, text())) }
    }

    /// What arrives until the service closes the connection.
    ///
    /// # Panics
    /// If it does not.
    pub fn rest(&mut self) -> Vec<u8> {
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

    /// # Panics
    /// If more arrives, or the service does not close.
    pub fn assert_closed(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }

    /// # Panics
    /// If the connection is closed.
    pub fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).expect("it is open");
    }
}
