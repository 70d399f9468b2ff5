//! The parts of response times, where connections are new or encrypted.

/// The place of a part in `load_facts::PHASES`. Connects and handshakes count in the warm-up too,
/// in which most kept connections are made; the rest of complete responses in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnginePhase {
    /// From the begin of the connect to the connection.
    Connect,
    /// The TLS handshake.
    Tls,
    /// From the request sent to the first byte of the response.
    FirstByte,
    /// From the first byte to the last.
    Body,
}
