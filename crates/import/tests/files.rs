//! Files that the tools wrote, shortened, and broken ones.

use fathom_import::{DocumentAbout, DocumentSource, Format, document};
use fathom_record::{Basis, Better, Cause, Document, Record, State, Tool};
use jiff::Timestamp;

const GO: &str = include_str!("data/go.txt");
const GOOGLE: &str = include_str!("data/google-benchmark.json");
const GOOGLE_AGGREGATES: &str = include_str!("data/google-benchmark-aggregates.json");
const HYPERFINE: &str = include_str!("data/hyperfine.json");
const HYPERFINE_PARAMETERS: &str = include_str!("data/hyperfine-parameters.json");
const PYPERF: &str = include_str!("data/pyperf.json");
const FIO: &str = include_str!("data/fio.json");

fn about(format: Format) -> DocumentAbout {
    let written = "2026-03-01T12:00:00Z".parse::<Timestamp>().expect("a date");
    DocumentAbout { format, tool: Tool::fixture(), label: None, host: None, written }
}

fn sources(format: Format, texts: &[&str]) -> Vec<DocumentSource> {
    let source = |(at, text): (usize, &&str)| {
        let parsed = format.parse(text).expect("a file of the tool");
        DocumentSource { name: format!("{at}.txt"), parsed }
    };
    texts.iter().enumerate().map(source).collect()
}

fn run(format: Format, texts: &[&str]) -> Document {
    let first = texts[0];
    assert_eq!(Format::recognised(first), Some(format), "{}", &first[..40]);
    document(&sources(format, texts), &about(format)).expect("one run")
}

/// Name, state, values of each process, headline and unit.
fn lines(document: &Document) -> Vec<String> {
    let line = |record: &Record| {
        let samples = record.samples.as_deref().unwrap_or_default();
        let counts: Vec<usize> = samples.iter().map(|sample| sample.values.len()).collect();
        let value = record.number(fathom_record::Protocol::Median);
        let value = value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let (state, unit) = (record.verdict.state.word(), record.unit.symbol());
        assert!(record.is_intact() && record.measured_by.is_some());
        format!("{} {state} {counts:?} {value} {unit}", record.name())
    };
    document.records.iter().map(line).collect()
}

#[test]
fn hyperfine_has_times_and_means() {
    let run = run(Format::Hyperfine, &[HYPERFINE]);
    assert_eq!(
        lines(&run),
        [
            "import.hyperfine.sleep_0.01 valid [12] 15946590.5 ns",
            "import.hyperfine.sleep_0.01.user valid [1] 1359583.3333333333 ns",
            "import.hyperfine.sleep_0.01.system unavailable [1] - ns",
            "import.hyperfine.true valid [12] 1245151.5000000002 ns",
            "import.hyperfine.true.user valid [1] 703999.9999999998 ns",
            "import.hyperfine.true.system unavailable [1] - ns",
        ]
    );
    // As hyperfine computed it from the same times.
    assert!(HYPERFINE.contains("\"median\": 0.015946590500000003"));
    let [wall, user, ..] = run.records.as_slice() else { panic!("{run:?}") };
    let interval = |record: &Record| record.summary.as_ref().and_then(|it| it.interval);
    assert_eq!(interval(wall), None, "its times are autocorrelated");
    let times = "1.0,1.2,1.1,1.3,1.0,1.2,1.1,1.3,1.0,1.2,1.1,1.3";
    let turns = format!("{{\"results\":[{{\"command\":\"x\",\"times\":[{times}]}}]}}");
    let turns = self::run(Format::Hyperfine, &[&turns]);
    assert_eq!(interval(&turns.records[0]).map(|it| it.basis), Some(Basis::WithinRun));
    assert_eq!((interval(user), wall.better), (None, Better::Lower), "no spread");
    assert_eq!(
        (run.run.started.as_str(), run.host.name.as_str()),
        ("2026-03-01T12:00:00.000Z", "unknown")
    );
    let by = wall.measured_by.as_ref().expect("the tool");
    assert_eq!((by.words().as_str(), &by.host, &by.date), ("hyperfine", &None, &None));
}

#[test]
fn parameters_of_hyperfine_are_those_of_cases() {
    let run = run(Format::Hyperfine, &[HYPERFINE_PARAMETERS]);
    let of = |name: &str| run.records.iter().find(|record| record.name() == name).expect(name);
    assert_eq!(of("import.hyperfine.sleep_0.01{n=0.01}").title, "sleep 0.01");
    assert_eq!(of("import.hyperfine.sleep_0.02{n=0.02}").title, "sleep 0.02");
    let [of_first, of_second] =
        ["0.01", "0.02"].map(|n| of(&format!("import.hyperfine.sh_-c_exit_3{{n={n}}}")));
    assert_eq!(of_first.title, of_second.title);
    let remark = "3 of 3 runs ended with another exit status than 0";
    assert!(of_second.verdict.reasons.iter().any(|reason| reason.text == remark));
    // hyperfine subtracts the start of a shell, down to 0.
    assert_eq!(of_first.verdict.reasons[0].text, "0 ns in the file");
}

#[test]
fn go_has_a_record_for_each_unit() {
    let run = run(Format::Go, &[GO]);
    assert_eq!(
        lines(&run),
        [
            "import.go.sums.Sum{procs=2} valid [3] 1143 ns",
            "import.go.sums.Sum.MB_s{procs=2} valid [3] 3584920000 bytes/s",
            "import.go.sums.Sort{n=100,procs=2} valid [3] 1311 ns",
            "import.go.sums.Sort{n=1000,procs=2} valid [3] 32303 ns",
            "import.go.sums.Sort.B_op{n=100,procs=2} valid [3] 896 bytes",
            "import.go.sums.Sort.B_op{n=1000,procs=2} valid [3] 8192 bytes",
            "import.go.sums.Sort.allocs_op{n=100,procs=2} valid [3] 1 ratio",
            "import.go.sums.Sort.allocs_op{n=1000,procs=2} valid [3] 1 ratio",
        ]
    );
    assert_eq!(run.records[1].better, Better::Higher);
    assert_eq!(run.records[1].title, "Sum-2: MB/s");
    assert_eq!((run.host.cpu.model.as_str(), run.host.cpu.logical), ("AMD EPYC", 0));
    assert_eq!(run.host.cpu.architecture, "x86_64");
}

#[test]
fn google_benchmark_has_times_rates_counters_and_errors() {
    let run = run(Format::GoogleBenchmark, &[GOOGLE]);
    assert_eq!(
        lines(&run),
        [
            "import.google-benchmark.Copy{arg=1024} valid [3] 39.52412846660648 ns",
            "import.google-benchmark.Copy.cpu_time{arg=1024} valid [3] 19.776866095344833 ns",
            "import.google-benchmark.Copy.bytes_per_second{arg=1024} valid [3] \
             51777667657.922485 bytes/s",
            "import.google-benchmark.Copy.chunks{arg=1024} valid [3] 16 ratio",
            "import.google-benchmark.Wait valid [3] 0.878469694070447 ns",
            "import.google-benchmark.Wait.cpu_time valid [3] 0.41222351486382125 ns",
            "import.google-benchmark.Broken failed [] - ns",
        ]
    );
    let broken = run.records.last().expect("a record");
    assert_eq!(broken.verdict.reasons[0].text, "no device");
    assert_eq!(broken.verdict.reasons[0].cause, Cause::Crashed);
    let by = run.records[0].measured_by.as_ref().expect("the tool");
    assert_eq!(by.words(), "google-benchmark on vm, 2026-11-27T18:46:28+00:00");
    assert_eq!((run.host.name.as_str(), run.host.id), ("vm", None), "no fact of this host");
    assert_eq!(run.run.started, "2026-11-27T18:46:28.000Z");
    assert_eq!(run.run.notes, ["0.txt: the library of Google Benchmark was a debug build"]);
}

#[test]
fn aggregates_alone_have_a_median_without_spread() {
    let run = run(Format::GoogleBenchmark, &[GOOGLE_AGGREGATES]);
    let first = &run.records[0];
    assert_eq!(first.name(), "import.google-benchmark.Copy{arg=1024}");
    assert!(first.notes[0].starts_with("the median of the repetitions"), "{:?}", first.notes);
    let summary = first.summary.as_ref().expect("a value");
    assert_eq!((summary.n, summary.interval), (1, None));
    assert!(GOOGLE_AGGREGATES.contains(&format!("\"real_time\": {},", summary.median)));
}

#[test]
fn each_worker_of_pyperf_is_a_process() {
    let run = run(Format::Pyperf, &[PYPERF]);
    assert_eq!(lines(&run), ["import.pyperf.sort noisy [3, 3, 3, 3, 3, 3] 5787.658798217521 ns"]);
    let summary = run.records[0].summary.as_ref().expect("a value");
    assert_eq!(summary.interval.map(|it| it.basis), Some(Basis::Processes));
    let by = run.records[0].measured_by.as_ref().expect("the tool");
    assert_eq!(by.words(), "pyperf 2.11.0 on vm, 2026-11-27 18:46:44.719399");
    assert_eq!((run.host.cpu.model.as_str(), run.host.cpu.logical), ("AMD EPYC", 2));
    assert_eq!(run.records[0].text_of("Python"), Some("3.11.7 (64-bit)"));
}

#[test]
fn fio_has_rates_and_latencies_of_each_operation() {
    let run = run(Format::Fio, &[FIO]);
    let lines = lines(&run);
    let of_reads: Vec<&String> = lines.iter().filter(|line| line.contains("op=read")).collect();
    assert_eq!(
        of_reads,
        [
            "import.fio.rand.bw{op=read} valid [1] 70055724 bytes/s",
            "import.fio.rand.iops{op=read} valid [1] 17103.448276 1/s",
            "import.fio.rand.lat{op=read} valid [1] 51535.094758 ns",
            "import.fio.rand.clat{op=read,percentile=50} valid [1] 49408 ns",
            "import.fio.rand.clat{op=read,percentile=99} valid [1] 96768 ns",
            "import.fio.rand.clat{op=read,percentile=99.9} valid [1] 280576 ns",
        ]
    );
    assert_eq!(lines.len(), 12, "{lines:?}");
    let options = run.records[0].text_of("options").expect("options");
    assert_eq!(options, "bs=4k filename=data.bin ioengine=psync name=rand rw=randrw size=4m");
    let warned = format!("note: both iodepth >= 1 and synchronous I/O engine\n{FIO}");
    assert_eq!(Format::recognised(&warned), Some(Format::Fio));
    let parsed = Format::Fio.parse(&warned).expect("warnings are skipped");
    assert_ne!(parsed, Format::Fio.parse(FIO).expect("a file"), "other checksum");
    let broken = warned.replace("\"total_ios\": 496", "\"total_ios\": ,");
    assert_eq!(Format::Fio.parse(&broken).unwrap_err().line, line_of(&broken, "\"total_ios\": ,"));
}

#[test]
fn each_file_is_a_process() {
    let other = |ns: &str| GO.replace(" 1143 ns/op", &format!(" {ns} ns/op"));
    let (b, c, d, e) = (other("1150"), other("1160"), other("1140"), other("1135"));
    let run = run(Format::Go, &[GO, &b, &c, &d, &e]);
    assert_eq!(lines(&run)[0], "import.go.sums.Sum{procs=2} valid [3, 3, 3, 3, 3] 1143 ns");
    let summary = run.records[0].summary.as_ref().expect("a value");
    let interval = summary.interval.expect("five processes");
    assert_eq!((interval.basis, interval.low, interval.high), (Basis::Processes, 1135.0, 1160.0));
    assert_eq!(run.run.asked, ["import go 0.txt 1.txt 2.txt 3.txt 4.txt"]);
    // A file that lacks a benchmark is no process of it.
    let without: String = GO
        .lines()
        .filter(|line| !line.contains("Sum-2"))
        .fold(String::new(), |text, line| text + line + "\n");
    let sources = sources(Format::Go, &[&without, GO]);
    let run = document(&sources, &about(Format::Go)).expect("one run");
    let sum = run.records.iter().find(|record| record.title == "Sum-2").expect("a record");
    let numbers: Vec<u32> = sum.samples.iter().flatten().map(|sample| sample.process).collect();
    assert_eq!(numbers, [1]);
}

#[test]
fn same_files_are_the_same_run() {
    let id = |texts: &[&str]| run(Format::Pyperf, texts).run.id;
    assert_eq!(id(&[PYPERF]), id(&[PYPERF]));
    let other = PYPERF.replace("5.5853428952978845e-06", "5.5853428952978846e-06");
    assert_ne!(id(&[PYPERF]), id(&[PYPERF, &other]));
    let twice = document(&sources(Format::Pyperf, &[PYPERF, PYPERF]), &about(Format::Pyperf));
    let why = twice.expect_err("no second process").to_string();
    assert_eq!(why, "0.txt and 1.txt are the same measurement; name it once");
    // Milliseconds since 1970, of 2026-11-27 18:46:44.719.
    assert_eq!(id(&[PYPERF])[..12], format!("{:012x}", 1_795_805_204_719_u64));
}

#[test]
fn files_of_two_machines_are_refused() {
    let refusal = |a: &str, b: &str, format: Format| {
        document(&sources(format, &[a, b]), &about(format)).expect_err("a conflict").to_string()
    };
    let other = GOOGLE.replace("\"host_name\": \"vm\"", "\"host_name\": \"db2\"");
    assert_eq!(
        refusal(GOOGLE, &other, Format::GoogleBenchmark),
        "0.txt is of host vm and 1.txt of db2; import them apart"
    );
    let other = PYPERF.replace("2.11.0", "2.6.0");
    assert_eq!(
        refusal(PYPERF, &other, Format::Pyperf),
        "0.txt is of version 2.11.0 and 1.txt of 2.6.0; import them apart"
    );
    let other = GO.replace("cpu: AMD EPYC", "cpu: other");
    assert!(refusal(GO, &other, Format::Go).contains("of CPU AMD EPYC and 1.txt of other"));
    let named = DocumentAbout { host: Some("ci".to_owned()), ..about(Format::Go) };
    let run = document(&sources(Format::Go, &[GO]), &named).expect("one run");
    assert_eq!(run.host.name, "ci");
    assert_eq!(run.records[0].measured_by.as_ref().and_then(|by| by.host.as_deref()), Some("ci"));
}

fn line_of(text: &str, word: &str) -> usize {
    text[..text.find(word).expect("the word")].matches('\n').count() + 1
}

#[test]
fn broken_files_are_refused_by_line() {
    let cut = |text: &str| text[..text.len() / 2].to_owned();
    for (format, text, at, why) in [
        (Format::Hyperfine, cut(HYPERFINE), None, "the file ends too early"),
        (
            Format::Hyperfine,
            HYPERFINE.replace("\"sleep 0.01\",", "\"sleep 0.01\"; 5,"),
            Some("\"sleep 0.01\"; 5"),
            "expected `,` or `}`",
        ),
        (Format::Hyperfine, "{\"results\": []}".to_owned(), None, "no result of hyperfine"),
        (Format::Hyperfine, format!("{HYPERFINE}{{}}"), None, "trailing characters"),
        (Format::Pyperf, PYPERF.replace(":\"1.0\"", ":\"2.0\""), None, "version \"2.0\""),
        (
            Format::Fio,
            FIO.replace("fio-3.33", "fio-2.16"),
            Some("fio-2.16"),
            "fio 2.16; the output",
        ),
        (
            Format::Fio,
            FIO.replacen("\"jobs\"", "fio: pid=12, err=28/file:x\n\"jobs\"", 1),
            Some("fio: pid=12"),
            "text within the JSON, `fio: pid=12, err=28/file:x`: write the JSON to a file",
        ),
        (Format::Go, "PASS\nok\n".to_owned(), Some("ok"), "no result of go"),
        (Format::Go, String::new(), None, "no result of go"),
    ] {
        let error = format.parse(&text).unwrap_err();
        assert!(error.what.contains(why), "{}: {error}", format.name());
        if let Some(word) = at {
            assert_eq!(error.line, line_of(&text, word), "{error}");
        }
    }
}

#[test]
fn failed_job_of_fio_has_no_number() {
    let failed = FIO.replace("\"error\": 0", "\"error\": 5");
    let run = run(Format::Fio, &[&failed]);
    for record in &run.records {
        assert_eq!(record.verdict.state, State::Failed);
        assert_eq!(record.verdict.reasons[0].text, "fio: error 5 of the job");
        assert_eq!(record.number(fathom_record::Protocol::Median), None);
    }
}
