//! Google Benchmark: a program that uses its library to read and write a file, built with the
//! system's compiler.

use crate::prelude::*;

pub(crate) struct GoogleBenchmark;

const SOURCE: &str = include_str!("google_benchmark.cpp");
const PASS_BYTES: f64 = (16 << 20) as f64;
/// Debian packages.
const COMPILER: &str = "g++";
const LIBRARY: &str = "libbenchmark-dev";

impl Peer for GoogleBenchmark {
    fn name(&self) -> &'static str {
        "google-benchmark"
    }

    fn program(&self) -> &'static str {
        "c++"
    }

    fn package(&self) -> &'static str {
        COMPILER
    }

    fn version(&self) -> Invocation {
        Invocation::new("dpkg-query", ["-W", "-f=${Version}", LIBRARY])
    }

    fn rows(&self, _: &PeerMachine) -> Vec<Row> {
        let block = Params::one("block", 1 << 20).and("file_bytes", 16 << 20);
        let warm = block.clone().and("state", "warm").and("threads", 1).and("way", "read");
        let read = row(
            ("file.read.throughput", warm),
            ("Read", "Read, 1 MiB"),
            "the same blocks and checksums, vectorized by the compiler, in Fathom by hand; both \
             report the median",
        );
        let write = row(
            ("file.write.throughput", block.and("sync", "data")),
            ("Write", "Write, 1 MiB, fdatasync"),
            "the same blocks, sync and close; both create a new file each time, outside the timed \
             part",
        );
        let passes = 5 * 13 + 5 * 20;
        vec![read, Row { reads_data: false, written: passes * (16 << 20), seconds: 4.0, ..write }]
    }

    fn library(&self) -> Option<(Invocation, &'static str)> {
        let words = ["-x", "c++", "-E", "-o", "/dev/null", "-"];
        let input = "#include <benchmark/benchmark.h>\n";
        Some((Invocation { input, ..Invocation::new("c++", words) }, LIBRARY))
    }

    fn made_by(&self, place: &PeerPlace) -> Option<Invocation> {
        let program = place.program.display().to_string();
        let words =
            ["-O3", "-march=native", "-pipe", "-x", "c++", "-", "-o", &program, "-lbenchmark"];
        let words = words.into_iter().chain(["-pthread"]);
        Some(Invocation { input: SOURCE, ..Invocation::new("c++", words) })
    }
}

fn row(
    (metric, params): (&'static str, Params),
    (function, work): (&'static str, &'static str),
    difference: &'static str,
) -> Row {
    let commands = move |place: &PeerPlace| {
        let path = |path: &std::path::Path| path.display().to_string();
        let words = [
            path(&place.data),
            path(&place.own),
            format!("--benchmark_filter=^{function}/"),
            "--benchmark_format=json".to_owned(),
            "--benchmark_repetitions=5".to_owned(),
            "--benchmark_min_time=0.08".to_owned(),
        ];
        vec![Invocation::new(path(&place.program), words)]
    };
    Row {
        metric,
        params,
        work,
        difference,
        reads_data: true,
        seconds: 1.5,
        ..Row::usual(Box::new(commands), Box::new(rate))
    }
}

fn rate(outputs: &[Output]) -> Result<PeerReading, RunError> {
    let output = &outputs[0];
    let whole: Option<Value> = serde_json::from_str(&output.out).ok();
    let runs = whole.as_ref().and_then(|whole| whole["benchmarks"].as_array());
    let runs = runs.ok_or_else(|| missing("JSON", output))?;
    let repetitions = || runs.iter().filter(|run| run["run_type"] == "iteration");
    if let Some(why) = repetitions().find_map(|run| run["error_message"].as_str()) {
        return Err(RunError::Failed(why.to_owned()));
    }
    let median = |name: &'static str| {
        let times: Vec<f64> = repetitions().filter_map(|run| nanoseconds(run, name)).collect();
        statistics::median(&times).ok_or_else(|| missing(name, output))
    };
    let (wall, cpu) = (median("real_time")?, median("cpu_time")?);
    let iterations: u64 = repetitions().filter_map(|run| run["iterations"].as_u64()).sum();
    let detail = format!(
        "wall {:.3} ms, CPU {:.3} ms an iteration; {iterations} iterations of 16 MiB",
        wall / 1e6,
        cpu / 1e6
    );
    Ok(PeerReading::from_value(PASS_BYTES * 1e9 / wall)?.with(detail))
}

fn nanoseconds(run: &Value, name: &str) -> Option<f64> {
    let unit = match run["time_unit"].as_str()? {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    Some(run[name].as_f64()? * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../tests/outputs/google-benchmark-1.7.1-read.json");

    #[test]
    fn output_of_google_benchmark_1_7_1_is_parsed() {
        let reading = rate(&[Output::printed(TEXT)]).unwrap();
        assert_eq!(reading.value, PASS_BYTES * 1e9 / 1_662_854.328_399_711_8);
        let detail = "wall 1.663 ms, CPU 1.662 ms an iteration; 335 iterations of 16 MiB";
        assert_eq!(reading.detail, detail);
    }

    #[test]
    fn error_of_the_program_is_returned() {
        let text = r#"{"benchmarks": [{"run_type": "iteration", "error_occurred": true,
            "error_message": "create file", "iterations": 0, "real_time": 0.0,
            "cpu_time": 0.0, "time_unit": "ns"}]}"#;
        let error = RunError::Failed("create file".to_owned());
        assert_eq!(rate(&[Output::printed(text)]), Err(error));
        assert!(rate(&[Output::printed("error while loading shared libraries")]).is_err());
    }
}
