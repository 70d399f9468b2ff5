//! Orders of a coordinator, as arguments of this program. The coordinator may be malicious: what it
//! asks for must be known here, and no text of it becomes an option.

use fathom_engine::Plan;
use fathom_fleet::{Order, RunOrder, Work};
use fathom_probes::REGISTRY;
use fathom_record::{Effort, Host, Protocol};

use crate::remedy::with_remedy;

/// The arguments for an order on this host; `name` if it is to be named so.
///
/// # Errors
/// Why the order is refused.
pub(super) fn arguments(
    order: &Order,
    host: &Host,
    name: Option<&str>,
) -> Result<Vec<String>, String> {
    let mut arguments = match &order.work {
        Work::Facts => return Err("facts need no order".to_owned()),
        Work::Run(run) => of_run(run, host)?,
    };
    let options = ["--json", "--samples", "--member"].into_iter();
    let options = options.chain(order.together.then_some("--wait-start"));
    let mut options: Vec<String> = options.map(str::to_owned).collect();
    options.extend(name.map(|name| format!("--host-name={name}")));
    // After the command, before what the order names.
    arguments.splice(1..1, options);
    Ok(arguments)
}

fn of_run(run: &RunOrder, host: &Host) -> Result<Vec<String>, String> {
    let RunOrder { metrics, effort, only } = run;
    let plan = Plan::new(&REGISTRY, metrics.clone(), *effort, Protocol::Median, 0, host);
    plan.and_then(|plan| plan.without_by_hand(&REGISTRY)).map_err(|error| with_remedy(&error))?;
    let effort = match effort {
        Effort::Quick => Some("--quick"),
        Effort::Standard => None,
        Effort::Thorough => Some("--thorough"),
    };
    let only = Some("--only").filter(|_| *only && !metrics.is_empty());
    let words = ["run"].into_iter().chain(effort).chain(only).chain(["--"]);
    Ok(words.map(str::to_owned).chain(metrics.iter().cloned()).collect())
}

#[cfg(test)]
mod tests {
    use fathom_record::host::is_name;

    use super::*;

    fn order(metrics: &[&str], together: bool) -> Order {
        let metrics = metrics.iter().map(|text| (*text).to_owned()).collect();
        let work = Work::Run(RunOrder { metrics, effort: Effort::Quick, only: true });
        Order { work, by_name: false, together }
    }

    fn line(order: &Order, name: Option<&str>) -> Result<String, String> {
        arguments(order, &Host::default(), name).map(|words| words.join(" "))
    }

    #[test]
    fn order_becomes_a_command_line() {
        let run = "run --json --samples --member";
        let metrics = ["cpu.call", "os.syscall{call=stat}"];
        let expected = format!("{run} --quick --only -- cpu.call os.syscall{{call=stat}}");
        assert_eq!(line(&order(&metrics, false), None).unwrap(), expected);
        let together = line(&order(&[], true), Some("node 7")).unwrap();
        assert_eq!(together, format!("{run} --wait-start --host-name=node 7 --quick --"));
    }

    #[test]
    fn only_registered_metrics_are_measured() {
        for wrong in [
            "--output=/etc/passwd",
            "-o",
            "cpu.call --tune",
            "; reboot",
            "$(reboot)",
            "../../bin/sh",
            "no.such.metric",
            "os.syscall{call=reboot}",
            "file.sweep",
            "",
        ] {
            let refused = line(&order(&["cpu.call", wrong], false), None);
            assert!(refused.is_err(), "{wrong}: {refused:?}");
        }
        let facts = Order { work: Work::Facts, by_name: false, together: false };
        assert!(line(&facts, None).is_err());
        // A name is a value, whatever it begins with.
        assert!(is_name("--tune"));
        let named = arguments(&order(&["cpu.call"], false), &Host::default(), Some("--tune"));
        assert!(named.unwrap().contains(&"--host-name=--tune".to_owned()));
    }
}
