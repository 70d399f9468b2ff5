//! Two network namespaces with a link between them, for both ends of a measurement on one machine.

use std::process::{Command, Stdio};

use crate::Unmet;
use crate::relay::Relay;

/// The address of each end.
pub const ADDRESSES: [&str; 2] = ["10.213.7.1", "10.213.7.2"];

/// Two namespaces, removed when dropped. Processes in them end first: they would keep them.
pub struct LabLink([String; 2]);

impl LabLink {
    /// # Errors
    /// Without root or `ip`.
    pub fn new(name: &str) -> Result<Self, Unmet> {
        let link = Self::namespaces(name)?;
        let [near, far] = &link.0;
        run(&format!("ip -n {near} link add link0 type veth peer name link0 netns {far}"))?;
        link.up()?;
        Ok(link)
    }

    /// With a relay of packets between the ends.
    ///
    /// # Errors
    /// Without root, `ip` or TUN devices.
    pub fn relayed(name: &str) -> Result<(Relay, Self), Unmet> {
        let link = Self::namespaces(name)?;
        let relay = Relay::start(&link.0, "link0")?;
        link.up()?;
        Ok((relay, link))
    }

    fn namespaces(name: &str) -> Result<Self, Unmet> {
        let process = std::process::id();
        let link = Self(["near", "far"].map(|end| format!("fathom-lab-{name}-{end}-{process}")));
        for end in &link.0 {
            run(&format!("ip netns add {end}"))?;
        }
        Ok(link)
    }

    fn up(&self) -> Result<(), Unmet> {
        for (end, address) in self.0.iter().zip(ADDRESSES) {
            run(&format!("ip -n {end} address add {address}/24 dev link0"))?;
            run(&format!("ip -n {end} link set link0 up"))?;
        }
        Ok(())
    }

    /// Sets the initial congestion window of an end, in segments (ip-route(8)).
    ///
    /// # Errors
    /// If the route cannot be changed.
    pub fn initial_window(&self, end: usize, segments: u32) -> Result<(), Unmet> {
        let words = format!("10.213.7.0/24 dev link0 initcwnd {segments}");
        run(&format!("ip -n {} route change {words}", self.0[end]))
    }

    /// Limits what an end sends, in bits per second of whole Ethernet frames (tc-tbf(8)).
    ///
    /// # Errors
    /// Without `tc` or the token bucket filter.
    pub fn limit(&self, end: usize, bits_s: u64) -> Result<(), Unmet> {
        // Enough tokens for a delayed timer.
        let burst = (bits_s / 8 / 1000).max(32 << 10);
        let words = format!("root tbf rate {bits_s}bit burst {burst} latency 50ms");
        run(&format!("tc -n {} qdisc add dev link0 {words}", self.0[end]))
    }

    /// The bytes that an end has sent, as its shaper counts them: each segment with its headers.
    ///
    /// # Errors
    /// Without `tc`.
    pub fn sent(&self, end: usize) -> Result<u64, Unmet> {
        let mut tc = Command::new("tc");
        tc.args(["-n", &self.0[end], "-s", "qdisc", "show", "dev", "link0"]);
        let output = tc.output().map_err(|error| Unmet(format!("tc: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut words = text.split_whitespace().skip_while(|word| *word != "Sent").skip(1);
        let bytes = words.next().and_then(|bytes| bytes.parse().ok());
        bytes.ok_or_else(|| Unmet(format!("tc -s qdisc: {text}")))
    }

    /// Sets the TCP receive buffer of an end.
    ///
    /// # Errors
    /// Without `sysctl`.
    pub fn receive_buffer(&self, end: usize, bytes: u64) -> Result<(), Unmet> {
        let setting = format!("net.ipv4.tcp_rmem=4096\t{bytes}\t{bytes}");
        run(&format!("{} sysctl -q -w {setting}", self.words(end).join(" ")))
    }

    /// The command line prefix that runs a program at an end.
    pub fn words(&self, end: usize) -> Vec<String> {
        // Not `ip netns exec`: it mounts another /sys, without cgroups.
        vec!["nsenter".to_owned(), format!("--net=/run/netns/{}", self.0[end])]
    }

    /// The command at an end.
    pub fn at(&self, end: usize, command: &Command) -> Command {
        inside(&self.words(end), command)
    }
}

/// The command after a command line prefix.
pub(crate) fn inside(words: &[String], command: &Command) -> Command {
    let mut there = Command::new(&words[0]);
    there.args(&words[1..]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        there.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => there.env(name, value),
            None => there.env_remove(name),
        };
    }
    there
}

impl Drop for LabLink {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = run(&format!("ip netns delete {name}"));
        }
    }
}

/// Runs a command of words separated by spaces.
pub(crate) fn run(line: &str) -> Result<(), Unmet> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    let output = command.args(words).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(Unmet(format!("{line}: {}", errors.trim())))
        }
        Err(error) => Err(Unmet(format!("{line}: {error}"))),
    }
}
