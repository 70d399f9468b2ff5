//! The questions of a load test, answered from its records.

use fathom_record::quantity::{bare, percent, quantity, signed_percent};
use fathom_record::{ParamValue, Record, Unit};

use super::limit::{BOTTLENECK, LimitCase, capacity_words};
use super::{THROUGHPUT, by_case, columns, mean_of, open};
use crate::by_hand::{Column, Question};
use crate::case::{case, counted};

/// Capacities, then for each case its steps, saturation and bottleneck.
pub(crate) fn questions(records: &[Record]) -> Vec<Question> {
    let mut questions = Vec::new();
    let capacities: Vec<String> = capacity_words(records).collect();
    if !capacities.is_empty() {
        questions.push(Question::new("What is the capacity of each resource?", capacities));
    }
    let mut steps: Vec<&Record> = records
        .iter()
        .filter(|it| it.metric.as_str() == THROUGHPUT && !open::is_open(it))
        .collect();
    steps.sort_by_key(|step| step.params.integer("clients"));
    let cases = by_case(&steps);
    let shared = |name: &String, value: &ParamValue| {
        cases.iter().all(|it| it[0].params.0.get(name) == Some(value))
    };
    for of_case in &cases {
        let mut differs = of_case[0].params.clone();
        differs.0.retain(|name, value| name != "clients" && !shared(name, value));
        let mut of_case = of_steps(of_case, records);
        if !differs.is_empty() {
            of_case.iter_mut().for_each(|it| it.question += &format!(" (`{}`)", case(&differs)));
        }
        questions.extend(of_case);
    }
    if cases.len() > 1 {
        let (head, rows) = super::cases(records);
        let question = Question::new("How do the cases compare?", vec![format!("{head}.")]);
        questions.push(Question { tables: vec![("the cases".to_owned(), rows)], ..question });
    }
    let memory = super::memory_words(records);
    if !memory.is_empty() {
        let words = memory.into_iter().map(|(name, text)| format!("{name}: {text}")).collect();
        questions.push(Question::new("Does the memory of either end grow?", words));
    }
    questions
}

fn of_steps(steps: &[&Record], records: &[Record]) -> Vec<Question> {
    let mut params = steps[0].params.clone();
    params.0.remove("clients");
    let name = format!("load{}", case(&params));
    let mut table = columns(steps, records);
    table.retain(Column::has_content);
    let mut questions = vec![Question {
        tables: vec![(format!("throughput and response time by clients, `{name}`"), table)],
        ..Question::new("How do throughput and response time grow with the clients?", Vec::new())
    }];
    questions.extend(law(steps, records, &name));
    let is_it = |it: &&Record| it.metric.as_str() == BOTTLENECK && it.params == params;
    let Some(bottleneck) = records.iter().find(is_it) else { return questions };
    let of_case = LimitCase { bottleneck, records, earlier: &[] };
    let saturation = match of_case.saturation() {
        Some(rate) => Some(format!("saturation: {rate}")),
        None => of_case.why_not_saturated().map(str::to_owned),
    };
    let numbers = of_case.numbers_of_clients().into_iter().map(|(what, it)| match what {
        "knee" => format!("optimal number of clients (knee): {it}"),
        _ => format!("{what} {it}"),
    });
    let numbers: Vec<String> = saturation.into_iter().chain(numbers).collect();
    if !numbers.is_empty() {
        let question = "Where is the throughput saturated, and which number of clients is optimal?";
        questions.push(Question::new(question, numbers));
    }
    let mut uses = if of_case.is_ours() { of_case.resources() } else { Vec::new() };
    uses.retain(Column::has_content);
    let caption = format!("use of each resource, `{name}`");
    questions.push(Question {
        tables: (!uses.is_empty()).then_some((caption, uses)).into_iter().collect(),
        ..Question::new(
            "What is the bottleneck, and what shows it?",
            [of_case.uses(), of_case.conclusion().in_order()].concat(),
        )
    });
    if let Some(proof) = of_case.proof() {
        let table = |(head, table): (String, Vec<Column>)| {
            (format!("{}, `{name}`", head.replacen('T', "t", 1)), table)
        };
        let tables = of_case.effects().map(table).into_iter().collect();
        let question = Question::new("Is the bottleneck proved?", vec![proof]);
        questions.push(Question { tables, ..question });
    }
    questions
}

/// Throughput × (response + think time) beside the number of clients.
fn law(steps: &[&Record], records: &[Record], name: &str) -> Option<Question> {
    let think_s: f64 = match steps[0].params.0.get("think_s")? {
        ParamValue::Integer(seconds) => *seconds as f64,
        ParamValue::Text(text) => text.parse().ok()?,
    };
    let row = |step: &&Record| {
        let mean_s = mean_of(step, records)? / 1e9;
        let rate = step.shown_summary()?.mean;
        let clients = step.params.integer("clients")? as f64;
        Some((clients, rate, mean_s, rate * (mean_s + think_s)))
    };
    let rows: Vec<(f64, f64, f64, f64)> = steps.iter().filter_map(row).collect();
    let off = |row: &(f64, f64, f64, f64)| row.3 / row.0 - 1.0;
    let largest = rows.iter().map(off).max_by(|a, b| a.abs().total_cmp(&b.abs()))?;
    let cells = |of: fn(&(f64, f64, f64, f64)) -> String| rows.iter().map(of).collect::<Vec<_>>();
    let deviation = rows.iter().map(|row| signed_percent(1.0 + off(row)));
    let think = match think_s {
        0.0 => "0".to_owned(),
        seconds => quantity(1e9 * seconds, Unit::Nanoseconds),
    };
    let table = vec![
        Column::new("clients N", cells(|row| format!("{:.0}", row.0)).into_iter()),
        Column::new("X, req/s", cells(|row| bare(row.1)).into_iter()),
        Column::new("mean R", cells(|row| quantity(1e9 * row.2, Unit::Nanoseconds)).into_iter()),
        Column::new("X × (R + Z)", cells(|row| bare(row.3)).into_iter()),
        Column::new("deviation", deviation),
    ];
    let sentence = format!(
        "Of {}, throughput X × (mean response time R + think time Z = {think}) is the number of \
         clients N within {}.",
        counted(rows.len(), "step"),
        percent(largest.abs())
    );
    let caption = format!("the response time law, `{name}`");
    let question = "Does the response time law R = N ÷ X − Z hold?";
    Some(Question { tables: vec![(caption, table)], ..Question::new(question, vec![sentence]) })
}

#[cfg(test)]
mod tests {
    use fathom_record::{Better, Cause, Fact, MetricId, Params, State, Summary, Value, Verdict};

    use super::*;

    fn record(metric: &str, params: Params, value: f64) -> Record {
        let summary = Summary { n: 9, median: value, mean: value, ..Summary::default() };
        let record =
            Record::new(MetricId::new(metric), params, metric, Unit::PerSecond, Better::Higher);
        Record { summary: Some(summary), ..record }
    }

    /// Two clients with the named response time, and what limits them.
    fn load(response_ns: f64) -> Vec<Record> {
        let case = || Params::one("mode", "random").and("think_s", 1);
        let step = || case().and("clients", 2);
        let mut bottleneck = record("load.bottleneck", case(), 0.9);
        bottleneck.value = Some(Value::Text("network".to_owned()));
        bottleneck.facts = vec![
            Fact::quantity("network utilisation", 0.9, Unit::Ratio),
            Fact::text("proof", "confirmed"),
        ];
        let mut capacity = record("load.capacity", Params::one("of", "network"), 1e8);
        capacity.facts = vec![Fact::quantity("requests", 50.0, Unit::PerSecond)];
        let mut dose = record("load.dose", step().and("resource", "network"), 0.7);
        dose.facts = vec![Fact::quantity("predicted", 0.72, Unit::Ratio)];
        vec![
            capacity,
            record("load.throughput", step(), 1.6),
            record("load.response_time", step(), response_ns),
            record("load.saturation", case(), 1.6),
            record("load.knee", case(), 2.0),
            bottleneck,
            dose,
        ]
    }

    #[test]
    fn each_question_has_its_answer() {
        let questions = questions(&load(250e6));
        let of = |question: &str| {
            let found = questions.iter().find(|it| it.question.contains(question));
            let found = found.unwrap_or_else(|| panic!("{question}"));
            let tables = found.tables.iter().flat_map(|it| &it.1).flat_map(|column| &column.cell);
            tables.chain(&found.sentences).cloned().collect::<Vec<String>>().join("\n")
        };
        assert!(of("capacity").contains("network"), "{}", of("capacity"));
        assert!(of("grow with the clients").contains("1.6"));
        // 1.6 × (0.25 + 1) = 2.
        let law = of("response time law");
        assert!(law.contains("clients N within 0 %") && law.contains("2.00"), "{law}");
        let optimal = of("optimal");
        assert!(optimal.contains("(knee): 2 clients") && optimal.contains("1.60"), "{optimal}");
        assert!(of("bottleneck, and what").contains("The network limits the throughput"));
        let proof = of("proved");
        assert!(proof.contains("confirmed: ") && proof.contains("0.72"), "{proof}");
    }

    #[test]
    fn deviation_from_the_law_and_missing_saturation_are_said() {
        let mut records = load(500e6);
        let text = "not saturated up to 2 clients";
        records[3].verdict = Verdict::because(State::Unavailable, Cause::TooShort, text);
        let questions = questions(&records);
        let words: Vec<&str> =
            questions.iter().flat_map(|it| &it.sentences).map(String::as_str).collect();
        assert!(words.iter().any(|it| it.contains("clients N within 20 %")), "{words:?}");
        assert!(words.contains(&text), "{words:?}");
    }

    #[test]
    fn undetermined_bottleneck_alone_is_no_saturation() {
        let mut records = load(250e6);
        records.retain(|it| it.metric.as_str() != "load.saturation");
        let bottleneck = records.iter_mut().find(|it| it.metric.as_str() == "load.bottleneck");
        let bottleneck = bottleneck.unwrap();
        bottleneck.value = Some(Value::Text("undetermined".to_owned()));
        let text = "not saturated up to 2 clients";
        bottleneck.verdict = Verdict::because(State::Valid, Cause::NotAsAsked, text);
        let questions = questions(&records);
        let words: Vec<&String> = questions.iter().flat_map(|it| &it.sentences).collect();
        assert!(
            words.iter().any(|it| it.starts_with("Not saturated up to 2 clients")),
            "{words:?}"
        );
        assert!(words.iter().all(|it| !it.contains("is saturated")), "{words:?}");
    }
}
