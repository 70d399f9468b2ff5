//! What every command that measures does first.

use fathom_measure::clock::{self, Source, Watch};
use fathom_record::{Host, Tool};

use crate::exit::{OrUsage, refuse};
use fathom_engine::INJECT;

/// This program.
pub(super) fn tool() -> Tool {
    Tool { name: "fathom".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// What the environment imposes must be something that can be.
pub(super) fn check_environment(host: &Host) -> anyhow::Result<()> {
    if let Ok(clock) = std::env::var("FATHOM_CLOCK")
        && clock != "monotonic_raw"
    {
        refuse!("FATHOM_CLOCK={clock}: the only clock to ask for is monotonic_raw");
    }
    if std::env::var_os(fathom_probes::uarch::OVERRIDE).is_some() {
        fathom_probes::uarch::row_for(host).or_usage()?;
    }
    Ok(())
}

/// What the environment imposes on the run, beyond the command line.
pub(super) fn imposed() -> Vec<String> {
    [fathom_probes::uarch::OVERRIDE, "FATHOM_CLOCK", INJECT]
        .into_iter()
        .filter_map(|name| Some((name, std::env::var(name).ok()?)))
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

/// The rate of the counter by calibration, where the CPU does not tell it.
pub(super) fn note_counter_rate(host: &mut Host, watch: &Watch) {
    let specification = watch.clock().specification();
    if host.cpu.tsc_hz.is_none() && specification.source == Source::Tsc {
        host.cpu.tsc_hz = Some(specification.hz);
        host.origin("cpu.tsc_hz", "calibration against CLOCK_MONOTONIC_RAW");
    }
}

/// Milliseconds since 1970 and 16 random bits, so that ids sort by time.
pub(super) fn run_id() -> String {
    let now = clock::wall_ns();
    let low =
        (now ^ (u64::from(std::process::id()) << 20)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    format!("{:012x}{low:04x}", now / 1_000_000)
}
