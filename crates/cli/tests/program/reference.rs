//! Published figures: their data matches the registry, and how they are shown.

use fathom_analysis::reference::all;
use fathom_probes::REGISTRY;
use fathom_record::{Document, MetricId, ParamValue, Record, Unit};

use crate::test_env::{assert_contains, json};
use crate::{TestEnv, assert_failure, assert_usage_error, text};

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

#[test]
fn unknown_study_lists_known_studies() {
    let env = TestEnv::new();
    for line in ["compare --reference", "compare latest --reference", "report --reference"] {
        let printed = env.stdout(line);
        assert!(all().iter().all(|one| printed.contains(&one.name)), "{printed}");
    }
    assert!(!env.file("report.html").exists());
    let output = env.run(&["compare", "--reference", "1999"]);
    assert_usage_error(&output, &["--reference 1999", "`2016-i5-5257u`", "`2020-transfer`"]);
    assert_failure(&env.run(&["compare", "--reference", "2016-i5-5257u"]), &["no store"]);
}

/// Writes a run with a call of 2.5 ns, switches with and without a working set, and a bandwidth
/// in another unit than published.
fn write_run(env: &TestEnv) -> String {
    env.short_run();
    let mut document: Document = env.latest();
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
    assert_eq!(of("network.tcp.rtt")[0]["missing"], "not_measured");
    assert_eq!(of("cpu.call").len(), 8);
    assert_eq!(of("cpu.call")[1]["missing"], "not_in_run");
    for width in ["60", "80", "140"] {
        let mut command = env.fathom(&words[..4]);
        let printed = text(&command.env("COLUMNS", width).output().expect("a view").stdout);
        let widest = printed.lines().map(|line| line.chars().count()).max();
        assert!(widest <= width.parse().ok(), "{widest:?} of {width}\n{printed}");
        let figures = ["11.10 ns", "10.66 ns", "± 28 %", "2.500 ns", "0.235"];
        assert_contains(&printed, &[&figures[..], &["2 of 37 published"]].concat());
        for word in ["worse", "better", "slower", "faster"] {
            assert!(!printed.contains(word), "`{word}` is a judgement:\n{printed}");
        }
    }
}
