//! Setup that all measuring commands share.

use fathom_analysis::diagnosis::BUSY_SEVERE;
use fathom_engine::INJECT;
use fathom_measure::clock::{self, CalibrationWatch, ClockSource};
use fathom_measure::{affinity, host};
use fathom_record::host::NAME_VARIABLE;
use fathom_record::{Host, Tool};

use crate::arguments::host_name;
use crate::exit::{OrUsage, usage_error};
use crate::terminal;

/// This program.
pub(super) fn tool() -> Tool {
    let [name, version, compiler] =
        ["fathom", env!("CARGO_PKG_VERSION"), env!("FATHOM_COMPILER")].map(str::to_owned);
    Tool { name, version, compiler: Some(compiler).filter(|it| !it.is_empty()) }
}

/// Names this host by the option; the variable of the environment is validated.
pub(super) fn name_host(name: Option<&str>) -> anyhow::Result<()> {
    match (name, std::env::var_os(NAME_VARIABLE).filter(|name| !name.is_empty())) {
        (Some(name), _) => host::set_name(name),
        (None, Some(name)) => {
            let name = name.to_string_lossy();
            if let Err(why) = host_name(&name) {
                usage_error!("{NAME_VARIABLE}: {why}");
            }
        }
        (None, None) => {}
    }
    Ok(())
}

/// Validates environment variables that change a measurement.
pub(super) fn check_environment(host: &Host) -> anyhow::Result<()> {
    if let Ok(clock) = std::env::var("FATHOM_CLOCK")
        && clock != "monotonic_raw"
    {
        usage_error!("FATHOM_CLOCK={clock}: the only supported value is monotonic_raw");
    }
    if std::env::var_os(fathom_probes::uarch::OVERRIDE).is_some() {
        fathom_probes::uarch::row_for(host).or_usage()?;
    }
    Ok(())
}

/// How long CPU load is sampled to find an idle CPU. The kernel counts in steps of 10 ms.
pub(super) const LOAD_WINDOW: std::time::Duration = std::time::Duration::from_millis(100);

/// Says that the CPUs are busy before somebody waits for noisy numbers.
pub(super) fn warn_of_busy_cpus(host: &Host) {
    if terminal::shows_progress() {
        let busy = affinity::busy_shares(LOAD_WINDOW);
        busy_words(&busy, &host.cpu.allowed).iter().for_each(|text| terminal::warn(text));
    }
}

fn busy_words(busy: &[(u32, f64)], allowed: &[u32]) -> Option<String> {
    let own = busy.iter().filter(|(cpu, _)| allowed.contains(cpu)).map(|(_, share)| share);
    let (count, sum) = own.fold((0, 0.0), |(count, sum), share| (count + 1, sum + share));
    let share = sum / f64::from(count.max(1));
    let cpus = if count == 1 { "CPU" } else { "CPUs" };
    let percent = 100.0 * share;
    (share >= BUSY_SEVERE)
        .then(|| format!("{cpus} {percent:.0} % busy: numbers will be noisy; Ctrl-C, or go on"))
}

/// The environment variables that change the measurement, for the record.
pub(super) fn imposed() -> Vec<String> {
    [fathom_probes::uarch::OVERRIDE, "FATHOM_CLOCK", INJECT]
        .into_iter()
        .filter_map(|name| Some((name, std::env::var(name).ok()?)))
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}

/// Records the calibrated rate of the counter if the CPU does not report one.
pub(super) fn note_counter_rate(host: &mut Host, watch: &CalibrationWatch) {
    let specification = watch.clock().specification();
    if host.cpu.tsc_hz.is_none() && specification.source == ClockSource::Tsc {
        host.cpu.tsc_hz = Some(specification.hz);
        host.origin("cpu.tsc_hz", "calibration against CLOCK_MONOTONIC_RAW");
    }
}

/// Milliseconds since 1970 and 16 pseudo-random bits, so that ids sort by time.
pub(super) fn run_id() -> String {
    let now = clock::wall_ns();
    let low =
        (now ^ (u64::from(std::process::id()) << 20)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    format!("{:012x}{low:04x}", now / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_cpus_are_said_of_those_that_are_allowed() {
        let busy = [(0, 1.0), (1, 1.0), (2, 0.0), (3, 0.0)];
        let words = |allowed: &[u32]| busy_words(&busy, allowed);
        let all = "CPUs 100 % busy: numbers will be noisy; Ctrl-C, or go on";
        assert_eq!(words(&[0, 1]).as_deref(), Some(all));
        assert!(words(&[1, 2]).is_some_and(|text| text.starts_with("CPUs 50 % busy")));
        assert!(words(&[0]).is_some_and(|text| text.starts_with("CPU 100 % busy")));
        assert_eq!((words(&[1, 2, 3]), words(&[]), busy_words(&[], &[0])), (None, None, None));
    }
}
