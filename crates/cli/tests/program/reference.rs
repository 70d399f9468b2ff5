//! Published figures: their data matches the registry, and how they are shown.

use fathom_analysis::reference::all;
use fathom_probes::REGISTRY;
use fathom_record::{Cause, MetricId, ParamValue, Record, State, Unit, Verdict};

use crate::ProgramTestEnv;
use crate::test_env::{assert_contains, stored_run};

#[test]
fn published_figures_match_the_registry() {
    for reference in all() {
        let name = &reference.name;
        for metric in &reference.not_measured {
            assert!(
                REGISTRY.find(metric.as_str()).is_none(),
                "{name}: {metric} is in the registry"
            );
            let used = reference.record.iter().any(|record| record.metric == *metric);
            assert!(used, "{name}: {metric} has no figure");
        }
        for record in &reference.record {
            let metric = &record.metric;
            let Some(entry) = REGISTRY.find(metric.as_str()) else {
                assert!(reference.not_measured.contains(metric), "{name}: unknown metric {metric}");
                continue;
            };
            let about = entry.about();
            assert_eq!(record.unit, about.unit, "{name}: {metric}");
            for (parameter, value) in &record.params.0 {
                let known = about.parameters.iter().find(|one| one.name == parameter);
                let known = known.unwrap_or_else(|| panic!("{name}: {metric} has no {parameter}"));
                if let ParamValue::Text(value) = value {
                    let words: Vec<&str> = known.values.split(", ").collect();
                    assert!(words.contains(&value.as_str()), "{name}: {metric}: {value}");
                }
            }
        }
    }
}

/// The rows of the classic table, by operation.
fn rows(printed: &str) -> Vec<(String, Vec<String>)> {
    let after = printed.lines().skip_while(|line| !line.starts_with("| ---")).skip(1);
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
    let rows = after.take_while(|line| line.starts_with('|')).map(cells);
    rows.map(|mut cells: Vec<String>| (cells.remove(1), cells.split_off(1))).collect()
}

#[test]
fn classic_table_has_37_rows_over_several_runs() {
    let env = ProgramTestEnv::with_run();
    let mut old = stored_run(1);
    let classic = all().into_iter().find(|one| one.name == "2016-i5-5257u").expect("a study");
    old.run.id = "0".repeat(16);
    let mut record = Record { samples: None, ..old.records[0].clone() };
    (record.metric, record.unit) = (MetricId::new("os.thread.create"), Unit::Nanoseconds);
    record.verdict = fathom_record::Verdict::default();
    let summary = record.summary.as_mut().expect("a summary");
    (summary.median, summary.mean, summary.sd) = (4_000.0, 4_000.0, 1_000.0);
    let mut without = Record { summary: None, ..record.clone() };
    without.metric = MetricId::new("memory.latency.l1");
    without.verdict = Verdict::because(State::Unavailable, Cause::MissingInput, "no latency");
    // The file cache of a smaller machine: a run under a limit fills no row unless it is named.
    let mut limited = old.clone();
    limited.run.id = "1".repeat(16);
    limited.host.cgroup.memory_limit_bytes = Some(1 << 30);
    let cache = Record { metric: MetricId::new("file.capacity"), ..record.clone() };
    limited.records = vec![Record { unit: Unit::Bytes, ..cache }];
    old.records = vec![record, without];
    env.store_run(&limited);
    env.store_run(&old);
    // An input can be measured again.
    assert_contains(&env.stdout("show --classic"), &["fathom run memory.latency.l1"]);
    let printed = env.stdout("show --classic --reference --markdown");
    let rows = rows(&printed);
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    let published = classic.record.iter().map(|one| one.operation.as_deref().expect("a name"));
    assert_eq!(names, published.collect::<Vec<_>>());
    let (_, cells) = rows.iter().find(|(name, _)| name == "Thread creation").expect("a row");
    assert_eq!(cells[4..6], ["4.000", "25"], "{cells:?}");
    assert_eq!(cells[9..12], ["22.73", "36", "0.176"], "{cells:?}");
    let cache_of = |printed: &str| {
        let row = self::rows(printed).into_iter().find(|(name, _)| name == "File cache size");
        row.expect("a row").1[4].clone()
    };
    assert_eq!(cache_of(&printed), "–");
    let named = env.stdout("show --classic --markdown 1111111111111111");
    assert_eq!(cache_of(&named), "3.906");
    assert!(printed.contains("run 0000000000000000 on"), "{printed}");
    let bandwidth = |units: &str| {
        let printed = env.stdout(&format!("show --classic --reference --markdown {units}"));
        let (_, cells) = self::rows(&printed).remove(20);
        [cells[0].clone(), cells[9].clone()]
    };
    assert_eq!(bandwidth(""), ["GiB/s", "8.140"]);
    assert_eq!(bandwidth("--units published"), ["GB/s", "8.740"]);
}
