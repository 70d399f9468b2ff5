//! Network namespaces around one in the middle, each behind a link of its own: many hosts on one
//! machine.

use std::process::Command;

use crate::Unmet;
use crate::link::{inside, run};

/// The address in the middle, which all others reach.
pub const MIDDLE: &str = "10.214.0.1";

/// Namespaces, removed when dropped. Processes in them end first: they would keep them.
pub struct Star {
    middle: String,
    ends: Vec<String>,
}

impl Star {
    /// With links of so many bits per second towards each end, of whole Ethernet frames.
    ///
    /// # Errors
    /// Without root, `ip`, `tc` or the token bucket filter.
    pub fn new(name: &str, ends: u8, bits_s: u64) -> Result<Self, Unmet> {
        let process = std::process::id();
        let of = |end: &str| format!("fathom-lab-{name}-{end}-{process}");
        let ends = (0..ends).map(|end| of(&end.to_string())).collect();
        let star = Self { middle: of("middle"), ends };
        let middle = &star.middle;
        for namespace in star.ends.iter().chain([middle]) {
            run(&format!("ip netns add {namespace}"))?;
            run(&format!("ip -n {namespace} link set lo up"))?;
        }
        run(&format!("ip -n {middle} address add {MIDDLE}/32 dev lo"))?;
        // Enough tokens for a delayed timer.
        let burst = (bits_s / 8 / 1000).max(32 << 10);
        for (at, end) in star.ends.iter().enumerate() {
            let [near, far] = [1, 2].map(|side| format!("10.214.{}.{side}", at + 1));
            run(&format!(
                "ip -n {middle} link add link{at} type veth peer name link0 netns {end}"
            ))?;
            run(&format!("ip -n {middle} address add {near}/24 dev link{at}"))?;
            run(&format!("ip -n {end} address add {far}/24 dev link0"))?;
            run(&format!("ip -n {middle} link set link{at} up"))?;
            run(&format!("ip -n {end} link set link0 up"))?;
            run(&format!("ip -n {end} route add {MIDDLE}/32 via {near}"))?;
            let words = format!("root tbf rate {bits_s}bit burst {burst} latency 50ms");
            run(&format!("tc -n {middle} qdisc add dev link{at} {words}"))?;
        }
        Ok(star)
    }

    /// The command in the middle.
    pub fn in_middle(&self, command: &Command) -> Command {
        inside(&words(&self.middle), command)
    }

    /// The command at an end.
    pub fn at(&self, end: usize, command: &Command) -> Command {
        inside(&words(&self.ends[end]), command)
    }
}

fn words(namespace: &str) -> [String; 2] {
    ["nsenter".to_owned(), format!("--net=/run/netns/{namespace}")]
}

impl Drop for Star {
    fn drop(&mut self) {
        for name in self.ends.iter().chain([&self.middle]) {
            let _ = run(&format!("ip netns delete {name}"));
        }
    }
}
