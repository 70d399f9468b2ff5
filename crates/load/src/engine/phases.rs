//! The parts of response times, where connections are new or encrypted.

use fathom_record::Histogram;

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

fathom_record::words!(
    Phase.word.ALL,
    Connect = "connect",
    Tls = "TLS handshake",
    FirstByte = "first byte",
    Body = "body"
);

/// Connects and handshakes also of the warm-up, in which most kept connections are made; the rest
/// of complete responses in the window.
#[derive(Clone, Debug)]
pub struct Phases([Histogram; 4]);

impl Phases {
    /// For phases within a time.
    pub(super) fn with_room(most_ns: u64) -> Self {
        Self(Phase::ALL.map(|_| Histogram::with_room(most_ns)))
    }

    pub(super) fn add(&mut self, phase: Phase, ns: u64) {
        self.0[phase as usize].add(ns as f64);
    }

    pub const COUNT: usize = Phase::ALL.len();

    pub fn all(&self) -> Vec<Histogram> {
        self.0.to_vec()
    }

    /// `None` unless there are as many.
    pub fn of_all(all: &[Histogram]) -> Option<Self> {
        all.to_vec().try_into().ok().map(Self)
    }

    pub fn of(&self, phase: Phase) -> &Histogram {
        &self.0[phase as usize]
    }

    /// Adds those of another thread or sweep to what may be none yet.
    pub fn merge(own: &mut Option<Self>, other: Option<&Self>) {
        match (own, other) {
            (Some(own), Some(other)) => {
                own.0.iter_mut().zip(&other.0).for_each(|(own, more)| own.merge(more));
            }
            (own, Some(other)) => *own = Some(other.clone()),
            (_, None) => {}
        }
    }
}
