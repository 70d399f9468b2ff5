//! `make zoo`: the static programs on emulated machines, whose facts are known.

mod boot;
mod expected;
mod fact;
mod machine;
mod output;
mod page;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context as _, Result, anyhow, ensure};
use fathom_lab::Unmet;
use fathom_lab::evidence::{EvidenceContents, EvidenceOrigin, ZOO};
use fathom_measure::clock::monotonic_ns;
use serde_json::Value;

use boot::{BootPlace, Booted};
use expected::ExpectedCheck;
use machine::ZooMachine;

/// Machines that run at a time.
const AT_A_TIME: usize = 2;
/// The word that chooses the machines of `make zoo-quick`.
const QUICK: &str = "quick";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ZooOutcome {
    Right,
    Wrong,
    Skipped,
}

/// A machine and what was found.
#[derive(Clone, Debug, Default)]
struct ZooRow {
    name: String,
    given: String,
    checks: Vec<ExpectedCheck>,
    /// The program's id of the machine.
    id: Option<String>,
    seconds: f64,
    /// Why the machine cannot run here.
    skipped: Option<String>,
}

/// Boots the machines whose name contains `only`, those of the quick zoo, or all; true if all are
/// right. Writes the page when it has all.
pub(crate) fn run(root: &Path, [x86, arm]: [&str; 2], only: &str) -> Result<bool> {
    let is_there = [x86, arm].iter().any(|program| Path::new(program).is_file());
    ensure!(is_there, "no static program for x86_64 or aarch64; run `make dist`");
    let place = BootPlace {
        scripts: root.join("lab/zoo"),
        folder: root.join("target/zoo"),
        x86: PathBuf::from(x86),
        arm: PathBuf::from(arm),
    };
    let mut machines = table::machines();
    machines.retain(|it| if only == QUICK { it.is_quick } else { it.name.contains(only) });
    ensure!(!machines.is_empty(), "no machine's name contains {only}; see lab/src/zoo/table.rs");
    // One after the other, so that two machines do not fetch the same kernel.
    for machine in &machines {
        match place.kernel(machine) {
            Err(why) if !why.is::<Unmet>() => return Err(why),
            _ => {}
        }
    }
    let began = monotonic_ns();
    let rows = boot_all(&place, &machines)?;
    let minutes = (monotonic_ns() - began) as f64 / 60e9;
    let criteria = page::criteria(&rows, minutes);
    let is_good = rows.iter().all(|row| row.outcome() != ZooOutcome::Wrong);
    if !only.is_empty() {
        return Ok(is_good);
    }
    let origin = EvidenceOrigin::here(root);
    let contents = EvidenceContents {
        parameters: &[],
        origins: &[("", &origin)],
        criteria: &criteria,
        body: &page::body(&rows),
    };
    let missed = ZOO.write(root, &contents).context(ZOO.path())?;
    missed.iter().for_each(|missed| println!("{missed}"));
    Ok(missed.is_empty())
}

fn boot_all(place: &BootPlace, machines: &[ZooMachine]) -> Result<Vec<ZooRow>> {
    let waiting = Mutex::new(machines.iter().enumerate());
    let rows = Mutex::new(Vec::new());
    let next = || waiting.lock().ok()?.next();
    let work = || -> Result<()> {
        while let Some((number, machine)) = next() {
            let row = boot(place, machine).with_context(|| machine.name)?;
            println!("{}", row.line());
            if let Ok(mut rows) = rows.lock() {
                rows.push((number, row));
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(anyhow!("a machine's thread panicked")))
        })
    })?;
    let mut rows = rows.into_inner().unwrap_or_default();
    rows.sort_by_key(|(number, _)| *number);
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

fn boot(place: &BootPlace, machine: &ZooMachine) -> Result<ZooRow> {
    let kernel = machine.kernel;
    let given = format!(
        "{} · Linux {} {} · {}",
        machine.qemu().join(" "),
        kernel.series,
        kernel.architecture.name(),
        machine.command_line()
    );
    let row = ZooRow { name: machine.name.to_owned(), given, ..ZooRow::default() };
    let began = monotonic_ns();
    let booted = place.boot(machine);
    let seconds = (monotonic_ns() - began) as f64 / 1e9;
    match booted {
        Ok(Booted { output, release }) => {
            let id = output.find("doctor/host/id").and_then(Value::as_str).map(str::to_owned);
            Ok(ZooRow { checks: fact::compare(machine, &release, &output), id, seconds, ..row })
        }
        Err(why) if why.is::<Unmet>() => Ok(ZooRow { skipped: Some(why.to_string()), ..row }),
        Err(why) => Err(why),
    }
}
