//! What a server used in the windows of a load.

use serde::{Deserialize, Serialize};

/// What the server used in the windows of a step. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerUse {
    /// Elapsed time by its clock.
    pub wall_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Responses.
    pub responses: u64,
    /// Bytes of bodies.
    pub bytes_sent: u64,
    /// Bytes on the wire; unknown if it was unknown in one window.
    pub wire_bytes: Option<u64>,
    /// Reads of its device.
    pub disk_reads: Option<u64>,
    /// Bytes read from its device.
    pub disk_bytes: Option<u64>,
    /// Time in which its device was busy.
    pub disk_busy_ns: Option<u64>,
    /// Time in which its threads handled connections.
    pub busy_ns: u64,
    /// CPU time of the reactors. Of a process tree, of the threads that work most.
    pub reactor_ns: u64,
    /// Their waits for a CPU.
    pub reactor_wait_ns: u64,
    /// Their number.
    pub reactors: u64,
    /// CPUs that the server may use; 0 if unknown.
    pub cpus: f64,
    /// How long a quota held it back.
    pub throttled_ns: Option<u64>,
    /// TCP segments that it sent again.
    pub retransmits: Option<u64>,
    /// CPU time per request in each window.
    pub per_request_ns: Vec<f64>,
    /// CPU time per byte sent in each window.
    pub per_byte_ns: Vec<f64>,
    /// What was seen of its processes, if it does not report itself.
    pub looks: Option<Looks>,
}

/// Counts of looks at the processes of a server, and of what was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Looks {
    /// Looks at all threads.
    pub threads: u64,
    /// Those in which a thread was blocked in the kernel.
    pub blocked: u64,
    /// Looks at all sockets.
    pub sockets: u64,
    /// Connections with unacknowledged data of the server in them.
    pub sending: u64,
    /// Bytes read and written by the processes. `None` if unknown.
    pub device_bytes: Option<u64>,
}

impl Looks {
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            threads: self.threads - earlier.threads,
            blocked: self.blocked - earlier.blocked,
            sockets: self.sockets - earlier.sockets,
            sending: self.sending - earlier.sending,
            device_bytes: self
                .device_bytes
                .zip(earlier.device_bytes)
                .and_then(|(now, then)| now.checked_sub(then)),
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let both = self.device_bytes.zip(other.device_bytes);
        Self {
            threads: self.threads.saturating_add(other.threads),
            blocked: self.blocked.saturating_add(other.blocked),
            sockets: self.sockets.saturating_add(other.sockets),
            sending: self.sending.saturating_add(other.sending),
            device_bytes: both.map(|(a, b)| a.saturating_add(b)),
        }
    }
}

impl ServerUse {
    /// With the responses and their bytes as the client counted them, if the server does not.
    #[must_use]
    pub fn counted_by_client(self, responses: u64, bytes_sent: u64) -> Self {
        if self.looks.is_none() {
            return self;
        }
        let per = |count: u64| (count > 0).then(|| self.cpu_ns as f64 / count as f64);
        let [per_request_ns, per_byte_ns] =
            [responses, bytes_sent].map(|count| per(count).into_iter().collect());
        Self { responses, bytes_sent, per_request_ns, per_byte_ns, ..self }
    }

    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        // A server may report any number.
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        let add = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        add(&mut self.wall_ns, other.wall_ns);
        add(&mut self.cpu_ns, other.cpu_ns);
        add(&mut self.responses, other.responses);
        add(&mut self.bytes_sent, other.bytes_sent);
        add(&mut self.busy_ns, other.busy_ns);
        add(&mut self.reactor_ns, other.reactor_ns);
        add(&mut self.reactor_wait_ns, other.reactor_wait_ns);
        self.wire_bytes = sum(self.wire_bytes, other.wire_bytes);
        self.disk_reads = sum(self.disk_reads, other.disk_reads);
        self.disk_bytes = sum(self.disk_bytes, other.disk_bytes);
        self.disk_busy_ns = sum(self.disk_busy_ns, other.disk_busy_ns);
        (self.reactors, self.cpus) = (other.reactors, other.cpus);
        self.throttled_ns = sum(self.throttled_ns, other.throttled_ns);
        self.retransmits = sum(self.retransmits, other.retransmits);
        self.per_request_ns.extend(other.per_request_ns);
        self.per_byte_ns.extend(other.per_byte_ns);
        self.looks = self.looks.zip(other.looks).map(|(looks, others)| looks.plus(others));
        self
    }

    /// The share of the server's CPUs in use: of its quota, or of the time of its reactors.
    pub fn cpu_share(&self) -> Option<f64> {
        let wall_ns = self.wall_ns as f64;
        let of_cpus = self.cpu_ns as f64 / (wall_ns * self.cpus);
        let of_reactors = self.reactor_ns as f64 / (wall_ns * self.reactors as f64);
        let is_known = self.wall_ns > 0 && self.cpus > 0.0 && self.reactors > 0;
        is_known.then(|| of_cpus.max(of_reactors).min(1.0))
    }

    /// The share of the time in which its reactors were ready and had no CPU.
    pub fn waiting(&self) -> f64 {
        let all_ns = self.wall_ns as f64 * self.reactors as f64;
        if all_ns > 0.0 { (self.reactor_wait_ns as f64 / all_ns).min(1.0) } else { 0.0 }
    }

    /// CPUs in use, on average.
    pub fn cpus(&self) -> Option<f64> {
        (self.wall_ns > 0).then(|| self.cpu_ns as f64 / self.wall_ns as f64)
    }

    /// A count per second of the server's clock.
    pub fn per_second(&self, count: Option<u64>) -> Option<f64> {
        (self.wall_ns > 0).then_some(count? as f64 / self.wall_ns as f64 * 1e9)
    }
}
