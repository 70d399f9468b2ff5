//! Published figures: their data matches the registry, and how they are shown.

use fathom_analysis::reference::all;
use fathom_probes::REGISTRY;
use fathom_record::{Cause, MetricId, ParamValue, Record, State, Unit, Verdict};

use crate::test_env::{assert_contains, json, stored_run};
use crate::{TestEnv, text};

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

/// Writes a run with a call of 2.5 ns, switches with and without a working set, and a bandwidth
/// in another unit than published.
fn write_run(env: &TestEnv) -> String {
    let mut document = stored_run(1);
    let template = document.records[0].clone();
    let record = |metric: &str, params: fathom_record::Params, unit: Unit, median: f64| {
        let mut record = Record { samples: None, params, unit, ..template.clone() };
        record.metric = MetricId::new(metric);
        record.verdict = fathom_record::Verdict::default();
        record.summary.as_mut().expect("a summary").median = median;
        record
    };
    let one = |name: &str, value: i64| fathom_record::Params::one(name, value);
    let of_memory = one("threads", 1).and("op", "read").and("level", "dram").and("page", "4K");
    document.records = vec![
        record("cpu.call", one("args", 0), Unit::Nanoseconds, 2.5),
        record("os.switch.process", one("set_bytes", 0), Unit::Nanoseconds, 1933.0),
        record("os.switch.process", one("set_bytes", 65_536), Unit::Nanoseconds, 9999.0),
        record("memory.bandwidth", of_memory, Unit::PerSecond, 1e9),
    ];
    env.write_document("run.json", &document)
}

#[test]
fn reference_shows_figures_without_judgement() {
    let env = TestEnv::new();
    let file = write_run(&env);
    let words = ["compare", &file, "--reference", "2016-i5-5257u", "--json"];
    let beside: serde_json::Value = json(&env.run(&words));
    let rows = beside["rows"].as_array().expect("rows");
    let of = |metric: &str| -> Vec<&serde_json::Value> {
        rows.iter().filter(|row| row["published"]["metric"] == metric).collect()
    };
    let switch = of("os.switch.process");
    assert_eq!(switch.len(), 1, "the case with a working set is excluded: {switch:?}");
    assert_eq!(switch[0]["ratio"], 0.5);
    assert_eq!(switch[0]["published"]["sd_percent"], 16.309);
    let read = of("memory.bandwidth");
    assert_eq!(read[0]["missing"]["other_unit"], "bytes/s published, 1/s here");
    assert_eq!(of("network.tcp.transfer")[0]["missing"], "not_in_run");
    assert_eq!(of("cpu.call").len(), 8);
    assert_eq!(of("cpu.call")[1]["missing"], "not_in_run");
    for width in ["60", "80", "140"] {
        let mut command = env.fathom(&words[..4]);
        let printed = text(&command.env("COLUMNS", width).output().expect("a view").stdout);
        let widest = printed.lines().map(|line| line.chars().count()).max();
        assert!(widest <= width.parse().ok(), "{widest:?} of {width}\n{printed}");
        let figures = [" 11.10 ", " 10.66 ", " 28", " 2.500 ", "0.235"];
        assert_contains(&printed, &[&figures[..], &["2 of 37 published"]].concat());
        assert!(!printed.contains('…'), "cut:\n{printed}");
        for word in ["worse", "better", "slower", "faster"] {
            assert!(!printed.contains(word), "`{word}` is a judgement:\n{printed}");
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
    let env = TestEnv::with_run();
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
    old.records = vec![record, without];
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
    assert!(printed.contains("run 0000000000000000 on"), "{printed}");
    let bandwidth = |units: &str| {
        let printed = env.stdout(&format!("show --classic --reference --markdown {units}"));
        let (_, cells) = self::rows(&printed).remove(20);
        [cells[0].clone(), cells[9].clone()]
    };
    assert_eq!(bandwidth(""), ["GiB/s", "8.140"]);
    assert_eq!(bandwidth("--units published"), ["GB/s", "8.740"]);
    for width in ["60", "80", "100", "140"] {
        for line in ["show --classic", "show --classic --reference"] {
            let printed =
                text(&env.command(line).env("COLUMNS", width).output().expect("it").stdout);
            let widest = printed.lines().map(|line| line.chars().count()).max();
            assert!(
                widest.is_some() && widest <= width.parse().ok(),
                "{widest:?} of {width}\n{printed}"
            );
            assert!(!printed.contains('…'), "cut at {width}:\n{printed}");
            if (width, line) == ("80", "show --classic") {
                let rows = printed.lines().filter(|line| line.split_whitespace().count() > 5);
                let rows = rows.skip_while(|line| !line.starts_with("operation")).skip(1);
                let rows = rows.take_while(|line| !line.starts_with("±"));
                assert_eq!(rows.count(), 37, "one line each:\n{printed}");
            }
        }
    }
}
