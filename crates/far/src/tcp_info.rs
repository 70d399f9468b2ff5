//! What the kernel counts of a TCP connection (TCP_INFO), and its facts in a record.

use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, AsRawFd as _};

use fathom_record::plausible::VISIT;
use fathom_record::{Fact, Unit};
use serde::{Deserialize, Serialize};

/// TCP_INFO of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpInfo {
    /// Of enum `tcp_state` in Linux net/tcp_states.h; 1 is ESTABLISHED.
    pub state: u8,
    /// The largest payload of a segment that this end sends.
    pub mss_bytes: u32,
    /// The congestion window, in segments.
    pub window: u32,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
    /// Smoothed round trip time, and the smallest. 0: none yet. The kernel counts microseconds.
    pub rtt_ns: f64,
    pub min_rtt_ns: f64,
    /// What the congestion control allows. Absent: it does not pace.
    pub pacing_bytes_s: Option<f64>,
    /// Time with data to send, and the parts of it without room in the receive window of the other
    /// end and in the send buffer of this one.
    pub busy_ns: f64,
    pub window_limited_ns: f64,
    pub buffer_limited_ns: f64,
    /// Bytes that the other end acknowledged.
    pub acknowledged: u64,
    /// Segments sent and not yet acknowledged.
    pub in_flight: u32,
}

/// Linux 4.10 and later fill the fields up to this one.
const FILLED_BYTES_MIN: usize = offset_of!(libc::tcp_info, tcpi_sndbuf_limited) + size_of::<u64>();

impl TcpInfo {
    /// `None` for what is not a TCP socket, and on kernels without all fields.
    pub fn from_socket(socket: &impl AsFd) -> Option<Self> {
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut filled = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `filled` bytes, which is the size of the structure, and
        // the descriptor is open during the call.
        let code = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut filled,
            )
        };
        if code != 0 || (filled as usize) < FILLED_BYTES_MIN {
            return None;
        }
        // SAFETY: integers only, of which those that the kernel does not know are zero.
        let info = unsafe { info.assume_init() };
        let ns = |us: u64| us as f64 * 1e3;
        // 2^32 − 1: no smallest yet. 2^64 − 1: no pacing.
        let min_rtt = Some(info.tcpi_min_rtt).filter(|us| *us != u32::MAX).unwrap_or(0);
        let pacing = Some(info.tcpi_pacing_rate).filter(|rate| !matches!(*rate, 0 | u64::MAX));
        Some(Self {
            state: info.tcpi_state,
            mss_bytes: info.tcpi_snd_mss,
            window: info.tcpi_snd_cwnd,
            retransmits: info.tcpi_total_retrans,
            rtt_ns: ns(info.tcpi_rtt.into()),
            min_rtt_ns: ns(min_rtt.into()),
            pacing_bytes_s: pacing.map(|rate| rate as f64),
            busy_ns: ns(info.tcpi_busy_time),
            window_limited_ns: ns(info.tcpi_rwnd_limited),
            buffer_limited_ns: ns(info.tcpi_sndbuf_limited),
            acknowledged: info.tcpi_bytes_acked,
            in_flight: info.tcpi_unacked,
        })
    }

    /// Whether another end can report it.
    pub(crate) fn is_plausible(&self) -> bool {
        let times = [self.rtt_ns, self.min_rtt_ns, self.busy_ns];
        let waits = [self.window_limited_ns, self.buffer_limited_ns];
        let mut numbers = times.into_iter().chain(waits).chain(self.pacing_bytes_s);
        numbers.all(|number| (0.0..=1e20).contains(&number)) && VISIT.contains(&self.acknowledged)
    }

    /// The facts of a connection after its work. `first`: the same end before it. `controls`: the
    /// congestion control of the near and of the far end.
    pub fn facts(&self, first: &Self, controls: [&str; 2]) -> Vec<Fact> {
        let [near, far] = controls;
        let control = if near == far { near.to_owned() } else { format!("{near}, far end {far}") };
        let count = |name, count: u32| Fact::quantity(name, count.into(), Unit::Ratio);
        let time = |name, ns| Fact::quantity(name, ns, Unit::Nanoseconds);
        let mut facts = vec![
            Fact::text("congestion control", control),
            Fact::quantity("MSS", self.mss_bytes.into(), Unit::Bytes),
            count("initial congestion window, segments", first.window),
            count("final congestion window, segments", self.window),
            count("retransmits", self.retransmits.saturating_sub(first.retransmits)),
        ];
        // Without a measured trip there is no time.
        facts.extend((self.rtt_ns > 0.0).then(|| time("TCP_INFO rtt", self.rtt_ns)));
        facts.extend((self.min_rtt_ns > 0.0).then(|| time("TCP_INFO min_rtt", self.min_rtt_ns)));
        facts
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn counts_of_a_connection_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let first = TcpInfo::from_socket(&near).unwrap();
        near.write_all(&[7; 3000]).unwrap();
        far.read_exact(&mut [0; 3000]).unwrap();
        far.write_all(b"x").unwrap();
        near.read_exact(&mut [0]).unwrap();
        let last = TcpInfo::from_socket(&near).unwrap();
        assert_eq!((first.state, last.state, last.in_flight), (1, 1, 0));
        // The kernel counts the SYN as a byte.
        assert_eq!(last.acknowledged - first.acknowledged, 3000);
        assert!(last.mss_bytes >= 536 && first.window >= 2 && last.rtt_ns > 0.0, "{last:?}");
        assert!(last.min_rtt_ns <= last.rtt_ns);
        let names: Vec<String> =
            last.facts(&first, ["bbr", "bbr"]).into_iter().map(|fact| fact.name).collect();
        assert_eq!(names.len(), 7, "{names:?}");
        let sent_again = TcpInfo { retransmits: first.retransmits + 3, ..last };
        let count = Fact::quantity("retransmits", 3.0, Unit::Ratio);
        assert!(sent_again.facts(&first, ["bbr", "bbr"]).contains(&count));
        let text = Fact::text("congestion control", "bbr, far end cubic");
        assert_eq!(last.facts(&first, ["bbr", "cubic"])[0], text);
        assert_eq!(TcpInfo::from_socket(&UdpSocket::bind("127.0.0.1:0").unwrap()), None);
    }
}
