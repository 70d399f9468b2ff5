//! What limits a transfer: the CPU of an end, a window, pacing, or the link.

use fathom_analysis::statistics;

use fathom_record::{Fact, Unit};

use crate::tcp_info::TcpInfo;

/// An end that uses its CPU for at least this share of the time is the limit.
const CPU_MIN: f64 = 0.90;
/// A window is the limit if the sender waits for it for at least this share of the time. To another
/// host a small one suffices: a control that paces (BBR) follows the rate that the window allowed,
/// and over a link that limits no sender waits for a window. On one host both ends also wait for
/// each other's turn on a CPU.
const WINDOW_MIN: f64 = 0.05;
const WINDOW_MIN_HERE: f64 = 0.30;
/// Below this share of a CPU, its speed does not matter for the rate.
const IDLE_MAX: f64 = 0.50;
/// Rates of a link differ by at most this share between the quartiles.
const STEADY_MAX: f64 = 0.10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarLimit {
    Cpu,
    Window,
    Pacing,
    Link,
    Undetermined,
}

impl FarLimit {
    /// The name, and the reason without numbers, which differ between visits.
    pub fn text(self) -> &'static str {
        match self {
            Self::Cpu => "CPU: an end used its CPU for 90 % of the time or more",
            Self::Window => "window: the receiver reads slowly, or a socket buffer is small",
            Self::Pacing => {
                "pacing: inferred, as the congestion control paces and no window is full"
            }
            Self::Link => "link: neither CPU nor window, and the rate is steady",
            Self::Undetermined => "no single resource: none is evidently used up",
        }
    }
}

/// What the two ends counted of a transfer.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The share of the time for which each end used its CPU.
    pub cpu: [f64; 2],
    /// Both ends share a CPU.
    pub one_cpu: bool,
    /// The shares of the busy time for which the sender waited for the receive window and for its
    /// own send buffer.
    pub window: f64,
    pub buffer: f64,
    /// The congestion control paces.
    pub paces: bool,
    /// There is no link: both ends are on this host.
    pub is_here: bool,
    /// The distance between the quartiles of the rates, as a share of their median.
    pub spread: f64,
}

impl Evidence {
    /// The counters of senders, before and after the transfer.
    pub fn of_senders(senders: &[[TcpInfo; 2]]) -> Self {
        let sum = |of: fn(&TcpInfo) -> f64| -> f64 {
            senders.iter().map(|[first, last]| of(last) - of(first)).sum()
        };
        let busy_ns = sum(|info| info.busy_ns).max(1.0);
        let window = sum(|info| info.window_limited_ns) / busy_ns;
        let buffer = sum(|info| info.buffer_limited_ns) / busy_ns;
        Self { window, buffer, ..Self::default() }
    }

    pub fn limit(&self) -> FarLimit {
        let [near, far] = self.cpu;
        let cpu = if self.one_cpu { near + far } else { near.max(far) };
        let window_min = if self.is_here { WINDOW_MIN_HERE } else { WINDOW_MIN };
        match () {
            // Small segments cost an end all of its CPU: without pacing the same CPU moves more.
            () if self.is_here
                && self.paces
                && !self.one_cpu
                && self.window.max(self.buffer) < window_min =>
            {
                FarLimit::Pacing
            }
            () if cpu >= CPU_MIN => FarLimit::Cpu,
            () if self.window.max(self.buffer) >= window_min => FarLimit::Window,
            () if self.is_here && self.paces => FarLimit::Pacing,
            () if self.is_here || cpu >= IDLE_MAX || self.spread > STEADY_MAX => {
                FarLimit::Undetermined
            }
            () => FarLimit::Link,
        }
    }

    pub fn facts(&self) -> Vec<Fact> {
        let share = |name, share| Fact::quantity(name, share, Unit::Ratio);
        vec![
            Fact::text("limited by", self.limit().text()),
            share("near end CPU share", self.cpu[0]),
            share("far end CPU share", self.cpu[1]),
            share("waited for the receive window, share", self.window),
            share("waited for the send buffer, share", self.buffer),
        ]
    }
}

/// Whether a congestion control delays segments of its own accord.
pub fn paces(congestion: &str) -> bool {
    congestion.starts_with("bbr")
}

pub fn spread(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quantile = |share| statistics::quantile(&sorted, share).unwrap_or(f64::NAN);
    let spread = (quantile(0.75) - quantile(0.25)) / quantile(0.5);
    if spread.is_finite() { spread } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_the_resource_that_was_used_up() {
        let idle = Evidence { cpu: [0.3, 0.4], spread: 0.02, ..Evidence::default() };
        let here = Evidence { is_here: true, ..idle.clone() };
        for (evidence, expected) in [
            (Evidence { cpu: [0.2, 0.95], window: 0.9, ..here.clone() }, FarLimit::Cpu),
            (Evidence { cpu: [0.45, 0.5], one_cpu: true, ..here.clone() }, FarLimit::Cpu),
            (Evidence { window: 0.1, paces: true, ..idle.clone() }, FarLimit::Window),
            (Evidence { window: 0.1, paces: true, ..here.clone() }, FarLimit::Pacing),
            (Evidence { buffer: 0.8, paces: true, ..here.clone() }, FarLimit::Window),
            (Evidence { paces: true, ..here.clone() }, FarLimit::Pacing),
            (Evidence { cpu: [0.95, 0.4], paces: true, ..here.clone() }, FarLimit::Pacing),
            (here, FarLimit::Undetermined),
            (Evidence { paces: true, ..idle.clone() }, FarLimit::Link),
            (Evidence { cpu: [0.6, 0.1], ..idle.clone() }, FarLimit::Undetermined),
            (Evidence { spread: 0.4, ..idle.clone() }, FarLimit::Undetermined),
            (idle, FarLimit::Link),
        ] {
            assert_eq!(evidence.limit(), expected, "{evidence:?}");
        }
    }

    #[test]
    fn shares_are_of_the_transfer_only() {
        let info = |busy_ns, window_limited_ns, buffer_limited_ns| TcpInfo {
            busy_ns,
            window_limited_ns,
            buffer_limited_ns,
            ..TcpInfo::default()
        };
        let senders = [[info(5e6, 5e6, 0.0), info(15e6, 10e6, 2e6)]];
        let found = Evidence::of_senders(&senders);
        assert_eq!((found.window, found.buffer), (0.5, 0.2));
        assert_eq!(Evidence::of_senders(&[]).window, 0.0);
        assert_eq!(spread(&[1.0, 2.0, 3.0, 4.0, 5.0]), 2.0 / 3.0);
        assert_eq!(spread(&[]), f64::INFINITY);
    }
}
