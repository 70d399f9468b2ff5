//! Local ports: how many a visit may use, and how many connections are in TIME_WAIT.

use crate::prelude::*;

/// Share of the local ports that a visit may use.
const SHARE: u64 = 5;
/// Without /proc: the dynamic ports of RFC 6335.
const PORTS: u64 = 16_384;

/// What is left of the ports of a visit.
#[derive(Debug)]
pub(super) struct Ports {
    left: u64,
    of: u64,
}

impl Ports {
    pub(super) fn of_a_visit() -> Self {
        let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        Self::from_total(text.ok().as_deref().and_then(range).unwrap_or(PORTS))
    }

    pub(super) fn from_total(all: u64) -> Self {
        Self { left: all / SHARE, of: all }
    }

    /// Takes the port of a further connection.
    pub(super) fn take(&mut self) -> Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            let text = format!("a visit uses at most a fifth of the {} local ports", self.of);
            SamplerFault::unavailable(text, Remedy::raise(&["net.ipv4.ip_local_port_range"]))
        })?;
        Ok(())
    }
}

/// The number of ports in the first and the last one.
fn range(text: &str) -> Option<u64> {
    let mut ends = text.split_ascii_whitespace().map(|end| end.parse::<u64>().ok());
    let (first, last) = (ends.next()??, ends.next()??);
    last.checked_sub(first).map(|count| count + 1)
}

/// Connections in TIME_WAIT of this network namespace, of IPv4 and IPv6.
pub(super) fn time_waits() -> Option<u64> {
    time_waits_in(&std::fs::read_to_string("/proc/net/sockstat").ok()?)
}

fn time_waits_in(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("TCP: "))?;
    let mut words = line.split(' ').skip_while(|word| *word != "tw");
    words.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visit_uses_at_most_a_fifth_of_the_ports() {
        assert_eq!(range("32768\t60999\n"), Some(28_232));
        assert_eq!((range("5"), range("9 1"), range("x 1")), (None, None, None));
        let mut ports = Ports::from_total(28_232);
        let taken = (0..28_232).take_while(|_| ports.take().is_ok()).count();
        assert_eq!(taken, 5_646);
        let fault = ports.take().unwrap_err();
        assert!(
            matches!(&fault, SamplerFault::Unavailable(text, Some(_)) if text.contains("28232"))
        );
        assert!(Ports::of_a_visit().left >= 1);
    }

    #[test]
    fn time_waits_are_read() {
        let text = "sockets: used 9\nTCP: inuse 5 orphan 0 tw 73 alloc 8 mem 1\nUDP: inuse 1\n";
        assert_eq!(time_waits_in(text), Some(73));
        assert_eq!(time_waits_in("TCP: inuse 5"), None);
        assert!(time_waits().is_some());
    }
}
