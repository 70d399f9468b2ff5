//! The parts of response times, where connections are new or encrypted.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// From the begin of the connect to the connection.
    Connect,
    /// The TLS handshake.
    Tls,
    /// From the request sent to the first byte of the response.
    FirstByte,
    /// From the first byte to the last.
    Body,
}

impl Phase {
    /// In the order of a recorded window. Connects and handshakes count in the warm-up too, in
    /// which most kept connections are made; the rest of complete responses in the window.
    pub const ALL: [Self; 4] = [Self::Connect, Self::Tls, Self::FirstByte, Self::Body];

    pub fn word(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "TLS handshake",
            Self::FirstByte => "first byte",
            Self::Body => "body",
        }
    }
}
