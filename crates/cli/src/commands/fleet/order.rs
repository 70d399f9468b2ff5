//! Orders of a coordinator, as arguments of this program. The coordinator may be malicious: what it
//! asks for must be known here, and no text of it becomes an option.

use fathom_engine::Plan;
use fathom_fleet::{FleetOrder, FleetWork, LoadShare, Local, PairOrder, RunOrder};
use fathom_load::{LoadOrder, Share};
use fathom_probes::REGISTRY;
use fathom_record::{Effort, Host, Protocol};

use crate::commands::run::remote::{BY_HTTP, only_to};
use crate::remedy::with_remedy;

/// The arguments for an order on this host; `name` if it is to be named so.
///
/// # Errors
/// Why the order is refused.
pub(super) fn arguments(
    order: &FleetOrder,
    local: &Local<'_>,
    host: &Host,
    name: Option<&str>,
) -> Result<Vec<String>, String> {
    // Before the command: an option of all.
    let mut words = Vec::from_iter(name.map(|name| format!("--host-name={name}")));
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    let remote = |to: &dyn std::fmt::Display| format!("--remote={to}");
    let run = match &order.work {
        FleetWork::Facts => return Err("facts need no order".to_owned()),
        FleetWork::Load(load) => {
            // After the command, before what the order names.
            let (command, rest) = of_load(load)?;
            add(&[&command, "--json", "--samples", "--member"]);
            add(if order.together { &["--wait-start"] } else { &[] });
            words.extend(rest);
            return Ok(words);
        }
        FleetWork::Serve => {
            add(&["fleet", "far-end", "--listen", &local.address.to_string()]);
            words.extend(token_file(local)?);
            return Ok(words);
        }
        FleetWork::Run(run) => {
            check(run, host)?;
            // Samples of each pair of many hosts would fill the store.
            add(&["run", "--json", "--member", "--samples"]);
            run
        }
        FleetWork::Pair(PairOrder { run, to, .. }) => {
            check_pair(run, host)?;
            add(&["run", "--json", "--member", "--remote-only", &remote(to)]);
            words.extend(token_file(local)?);
            // There are many pairs, and few metrics of each.
            let time = match run.effort {
                Effort::Quick => "20s",
                Effort::Standard => "1min",
                Effort::Thorough => "5min",
            };
            words.extend(["--time", time].map(str::to_owned));
            run
        }
    };
    let mut add = |more: &[&str]| words.extend(more.iter().map(|word| (*word).to_owned()));
    add(if order.together { &["--wait-start"] } else { &[] });
    add(match run.effort {
        Effort::Quick => &["--quick"],
        Effort::Standard => &[],
        Effort::Thorough => &["--thorough"],
    });
    add(if run.only && !run.metrics.is_empty() { &["--only"] } else { &[] });
    add(&["--"]);
    words.extend(run.metrics.iter().cloned());
    Ok(words)
}

fn token_file(local: &Local<'_>) -> Result<[String; 2], String> {
    let path = local.token_file.ok_or("a far end without a token")?;
    Ok(["--token-file".to_owned(), path.display().to_string()])
}

fn check(run: &RunOrder, host: &Host) -> Result<Plan, String> {
    let RunOrder { metrics, effort, .. } = run;
    let plan = Plan::new(&REGISTRY, metrics.clone(), *effort, Protocol::Median, 0, host);
    plan.and_then(|plan| plan.without_by_hand(&REGISTRY)).map_err(|error| with_remedy(&error))
}

/// Checks what is to be measured between two hosts, on one of them.
///
/// # Errors
/// If some of it is not between hosts, or would send the token.
pub(super) fn check_pair(run: &RunOrder, host: &Host) -> Result<(), String> {
    const TO: &str = "far.example";
    let plan = check(run, host)?;
    let asked: Vec<&str> =
        plan.units.iter().filter(|it| !it.needed).map(|it| it.entry.about().id).collect();
    // Its error names an option that is not there.
    let to_others = plan.alone().and_remote(TO).map_or(Vec::new(), |plan| only_to(plan, TO).units);
    let to_others: Vec<&str> = to_others.iter().map(|it| it.entry.about().id).collect();
    match asked.iter().find(|id| !to_others.contains(id) || BY_HTTP.contains(id)) {
        Some(id) if to_others.contains(id) => {
            Err(format!("{id} sends the token unencrypted: it is not measured between members"))
        }
        Some(id) => Err(format!("{id} is not measured between two hosts; such as network.tcp.rtt")),
        None => Ok(()),
    }
}

/// The command, and its arguments.
fn of_load(load: &LoadShare) -> Result<(String, Vec<String>), String> {
    let LoadShare { url, options, place, of, .. } = load.clone();
    let share = Share::new(place, of).ok_or("the place of a member beyond their number")?;
    let mut words = LoadOrder { url, options }.arguments(share)?.into_iter();
    let command = words.next().ok_or("an empty command")?;
    Ok((command, words.collect()))
}

#[cfg(test)]
mod tests {
    use fathom_record::host::is_name;

    use super::*;

    fn order(metrics: &[&str], together: bool) -> FleetOrder {
        let metrics = metrics.iter().map(|text| (*text).to_owned()).collect();
        let work = FleetWork::Run(RunOrder { metrics, effort: Effort::Quick, only: true });
        FleetOrder { work, by_name: false, together }
    }

    fn line(order: &FleetOrder, name: Option<&str>) -> Result<String, String> {
        let local =
            Local { address: [10, 0, 0, 1].into(), token_file: Some("/proc/7/fd/3".as_ref()) };
        arguments(order, &local, &Host::default(), name).map(|words| words.join(" "))
    }

    #[test]
    fn order_becomes_a_command_line() {
        let run = "run --json --member --samples";
        let metrics = ["cpu.call", "os.syscall{call=stat}"];
        let expected = format!("{run} --quick --only -- cpu.call os.syscall{{call=stat}}");
        assert_eq!(line(&order(&metrics, false), None).unwrap(), expected);
        let together = line(&order(&[], true), Some("node 7")).unwrap();
        assert_eq!(together, format!("--host-name=node 7 {run} --wait-start --quick --"));
    }

    fn pair(metrics: &[&str]) -> FleetOrder {
        let FleetWork::Run(run) = order(metrics, false).work else { unreachable!() };
        let (to, name) = ("10.0.0.2:40000".parse().unwrap(), "b".to_owned());
        let work = FleetWork::Pair(PairOrder { run, to, name });
        FleetOrder { work, by_name: false, together: false }
    }

    #[test]
    fn pair_becomes_a_run_to_the_other_alone() {
        let expected = "--host-name=a run --json --member --remote-only --remote=10.0.0.2:40000 \
                        --token-file /proc/7/fd/3 --time 20s --quick --only -- network.tcp.rtt";
        assert_eq!(line(&pair(&["network.tcp.rtt"]), Some("a")).unwrap(), expected);
        let serve = FleetOrder { work: FleetWork::Serve, by_name: false, together: false };
        let expected = "fleet far-end --listen 10.0.0.1 --token-file /proc/7/fd/3";
        assert_eq!(line(&serve, None).unwrap(), expected);
        for (wrong, why) in [
            (&["network.tcp.rtt", "cpu.call"][..], "cpu.call is not measured between two hosts"),
            (&["network.http.get"], "network.http.get sends the token unencrypted"),
            (&["network.tcp.rtt", "--output=/etc/passwd"], "--output"),
            (&[], "not measured between two hosts"),
        ] {
            let refused = line(&pair(wrong), None).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
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
        let facts = FleetOrder { work: FleetWork::Facts, by_name: false, together: false };
        assert!(line(&facts, None).is_err());
        // A name is a value, whatever it begins with.
        assert!(is_name("--tune"));
        let named = line(&order(&["cpu.call"], false), Some("--tune")).unwrap();
        assert!(named.starts_with("--host-name=--tune run "), "{named}");
    }
}
