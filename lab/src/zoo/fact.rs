//! What a machine was given, compared with what the program found on it.

use fathom_record::is_hidden;
use serde_json::{Value, json};

use super::expected::{Expected, ExpectedCheck};
use super::machine::{Architecture, Bus, DISK_BYTES, ZooDisk, ZooMachine};
use super::output::ZooOutput;

/// Whether the machine did all steps and ended by itself.
const END: &str = "end";
/// The steps of lab/zoo/units.
const UNITS: [&str; 11] = [
    "users",
    "canary",
    "canary-log",
    "canary-metrics",
    "timer",
    "timer-active",
    "serve",
    "fetch",
    "same",
    "serve-stop",
    "none-failed",
];
const MIB: f64 = 1_048_576.0;

/// All facts of a machine. `release` is that of its kernel.
pub(super) fn compare(
    machine: &ZooMachine,
    release: &str,
    output: &ZooOutput,
) -> Vec<ExpectedCheck> {
    let mut facts = expected(machine, release);
    for (path, fact) in &machine.facts {
        facts.retain(|(known, _)| known != path);
        facts.push(((*path).to_owned(), fact.clone()));
    }
    // A fact that cannot be read is absent.
    let is_readable = machine.has_proc && machine.has_sys;
    let check = |(path, fact): &(String, Expected)| {
        let found = output.find(path).filter(|found| is_readable || !is_empty(found));
        let fact = if found.is_none() && !is_readable { &Expected::Unknown } else { fact };
        ExpectedCheck::new(path, fact, found)
    };
    let mut checks = statuses(machine, output);
    checks.extend(facts.iter().map(check));
    checks.push(disk_names(machine, output));
    checks.push(hidden(output));
    if !machine.metrics.is_empty() && machine.during.is_empty() {
        checks.push(cases(output));
    }
    checks
}

/// Numbers and texts that are always there have an empty value if they are unknown.
fn is_empty(value: &Value) -> bool {
    ["0", "\"\"", "[]", "{}"].contains(&value.to_string().as_str())
}

/// Each step with its exit status: the doctor calls an emulated CPU severe.
fn statuses(machine: &ZooMachine, output: &ZooOutput) -> Vec<ExpectedCheck> {
    let mut steps = vec![("version".to_owned(), 0), ("doctor".to_owned(), 4)];
    if !machine.metrics.is_empty() {
        steps.push(("run".to_owned(), 0));
    }
    for kind in machine.file_systems() {
        steps.extend([(format!("write-{kind}"), 0), (format!("read-{kind}"), 0)]);
    }
    if machine.has_units {
        steps.extend(UNITS.map(|step| (step.to_owned(), 0)));
    }
    let raw = machine.disks.iter().filter(|disk| disk.file_system.is_none());
    steps.extend(raw.map(|disk| (format!("read-{}", disk.name), 0)));
    if machine.serves {
        steps.extend(["fetch", "same", "serve"].map(|step| (step.to_owned(), 0)));
    }
    let status = |(step, status): (String, i32)| {
        let found = output.steps.get(&step);
        let found_status = found.and_then(|it| it.status).map(Value::from);
        let expected = Expected::Is(json!(status));
        let mut check =
            ExpectedCheck::new(&format!("{step} status"), &expected, found_status.as_ref());
        if let Some(found) = found.filter(|_| !check.is_right) {
            check.found += &format!(": {}", words(&found.errors));
        }
        check
    };
    let mut checks: Vec<ExpectedCheck> = steps.into_iter().map(status).collect();
    let mut end =
        ExpectedCheck::new(END, &Expected::Is(json!(true)), Some(&json!(output.is_complete)));
    if !end.is_right {
        end.found += &format!(": {}", words(&output.others.join("\n")));
    }
    checks.push(end);
    checks
}

/// The place of a panic, or the last line.
fn words(errors: &str) -> &str {
    let lines = || errors.lines().filter(|line| !line.trim().is_empty());
    lines()
        .find(|line| line.contains("panicked"))
        .or_else(|| lines().next_back())
        .unwrap_or_default()
}

/// What the fields of a machine imply.
fn expected(machine: &ZooMachine, release: &str) -> Vec<(String, Expected)> {
    let topology = machine.topology;
    let cores = topology.sockets * topology.dies * topology.cores;
    let bytes = f64::from(machine.mib) * MIB;
    // The kernel keeps its own image and tables.
    let reserved = (0.06 * bytes + 96.0 * MIB).min(0.6 * bytes);
    let cgroup = if machine.has_cgroup { Expected::Is(json!(2)) } else { Expected::Unknown };
    let mut facts: Vec<(String, Expected)> = [
        ("name", Expected::Is(json!(format!("zoo-{}", machine.name)))),
        ("kernel", Expected::Is(json!(release))),
        ("kernel_command_line", Expected::Is(json!(machine.performance_parameters()))),
        ("cpu/architecture", Expected::Is(json!(machine.kernel.architecture.name()))),
        ("cpu/logical", Expected::Is(json!(topology.cpus()))),
        ("cpu/cores", Expected::Is(json!(cores))),
        ("cpu/sockets", Expected::Is(json!(topology.sockets))),
        ("cpu/smt", Expected::Is(json!(topology.threads > 1))),
        ("cpu/numa", Expected::Is(nodes(machine))),
        ("memory/total_bytes", Expected::Between(bytes - reserved, bytes)),
        ("memory/page_bytes", Expected::Is(json!(machine.kernel.page_bytes))),
        ("virtualization", Expected::Is(json!("qemu"))),
        ("emulation", Expected::Is(json!("tcg"))),
        ("cgroup/version", cgroup),
    ]
    .map(|(name, fact)| (format!("doctor/host/{name}"), fact))
    .to_vec();
    if machine.kernel.architecture == Architecture::X86 {
        let dies = topology.sockets * topology.dies;
        facts.push(("doctor/host/cpu/dies".to_owned(), Expected::Is(json!(dies))));
        // QEMU makes modules of up to 16 GiB.
        let module = "doctor/host/memory/modules/0/size_bytes".to_owned();
        facts.push((module, Expected::Is(json!(u64::from(machine.mib) << 20))));
        // TCG gives no CPU an invariant TSC.
        facts.push(("doctor/host/cpu/flags/nonstop_tsc".to_owned(), Expected::Unknown));
        facts.push(("doctor/clock/facts/source".to_owned(), Expected::Not(json!("tsc"))));
    }
    for disk in &machine.disks {
        facts.extend(of_disk(disk));
    }
    for kind in machine.file_systems() {
        let name = match kind {
            "overlay" => "on overlay",
            "tmpfs" => "on tmpfs",
            "9p" => "on 9p",
            "ext4" => "on ext4",
            "xfs" => "on xfs",
            "btrfs" => "on btrfs",
            // Of all kinds of FAT.
            _ => "on fat",
        };
        let path = format!("read-{kind}/records/0/facts/file/text");
        facts.push((path, Expected::With(name)));
    }
    facts
}

/// NUMA nodes with their CPUs, as in the facts.
fn nodes(machine: &ZooMachine) -> Value {
    let all = [(0, machine.topology.cpus() - 1)];
    let list = |cpus: Option<(u32, u32)>| match cpus {
        Some((first, last)) => json!((first..=last).collect::<Vec<u32>>()),
        None => json!([]),
    };
    let nodes: Vec<Value> = match machine.nodes {
        [] => all.iter().map(|cpus| list(Some(*cpus))).collect(),
        nodes => nodes.iter().map(|node| list(node.cpus)).collect(),
    };
    nodes.into_iter().enumerate().map(|(number, cpus)| (number.to_string(), cpus)).collect()
}

fn of_disk(disk: &ZooDisk) -> Vec<(String, Expected)> {
    let model = match (disk.bus, disk.model) {
        (_, Some(model)) => Expected::Is(json!(model)),
        (Bus::Nvme, None) => Expected::Is(json!("QEMU NVMe Ctrl")),
        (Bus::Virtio, None) => Expected::Unknown,
        (Bus::Ide | Bus::Usb | Bus::Scsi, None) => Expected::Is(json!("QEMU HARDDISK")),
    };
    let rotational = match (disk.bus, disk.rotation) {
        (Bus::Nvme, _) => Expected::Is(json!(false)),
        (_, Some(rate)) => Expected::Is(json!(rate > 1)),
        // Linux assumes that a disk rotates which does not say it.
        (_, None) => Expected::Unknown,
    };
    let facts = [
        ("size_bytes", Expected::Is(json!(DISK_BYTES))),
        ("logical_sector_bytes", Expected::Is(json!(disk.sector_bytes))),
        ("physical_sector_bytes", Expected::Is(json!(disk.sector_bytes))),
        ("rotational", rotational),
        ("removable", Expected::Is(json!(disk.is_removable))),
        ("model", model),
    ];
    let path = |name: &str| format!("doctor/host/disks/{}/{name}", disk.name);
    facts.map(|(name, fact)| (path(name), fact)).to_vec()
}

/// No disk more than was given.
fn disk_names(machine: &ZooMachine, output: &ZooOutput) -> ExpectedCheck {
    let mut given: Vec<&str> = machine.disks.iter().map(|disk| disk.name).collect();
    given.sort_unstable();
    let found = output.find("doctor/host/disks").and_then(Value::as_array);
    let mut found: Vec<&str> =
        found.into_iter().flatten().filter_map(|disk| disk["name"].as_str()).collect();
    if !machine.has_sys && found.is_empty() {
        found.clone_from(&given);
    }
    ExpectedCheck::new("disks", &Expected::Is(json!(given)), Some(&json!(found)))
}

/// No text of the doctor has characters that a terminal hides or obeys.
fn hidden(output: &ZooOutput) -> ExpectedCheck {
    fn texts<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::String(text) if text.contains(|c| is_hidden(c) && c != '\n') => found.push(text),
            Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
            Value::Object(fields) => fields.values().for_each(|field| texts(field, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    if let Some(step) = output.steps.get("doctor") {
        texts(&step.document, &mut found);
    }
    ExpectedCheck::new(
        "texts with control characters",
        &Expected::Is(json!([])),
        Some(&json!(found)),
    )
}

/// Each case of the run has a number, which is marked as the emulator's.
fn cases(output: &ZooOutput) -> ExpectedCheck {
    let records = output.find("run/records").and_then(Value::as_array);
    let is_wrong = |record: &&Value| {
        let reasons = record["verdict"]["reasons"].to_string();
        record["value"].is_null() || !reasons.contains("emulated")
    };
    let name = |record: &Value| {
        let verdict = &record["verdict"];
        format!("{} {}: {}", record["metric"], verdict["state"], verdict["reasons"])
    };
    let wrong: Vec<String> = records.into_iter().flatten().filter(is_wrong).map(name).collect();
    let count = records.map_or(0, Vec::len);
    let (wrong, none) = (json!(wrong), Expected::Is(json!([])));
    let found = if count > 0 { Some(&wrong) } else { None };
    ExpectedCheck::new("cases without a number that is marked as emulated", &none, found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::zoo::output::OutputStep;
    use crate::zoo::table::machines;

    const RELEASE: &str = "6.1.0-1-amd64";

    fn machine(name: &str) -> ZooMachine {
        machines().into_iter().find(|machine| machine.name == name).expect("a machine")
    }

    fn step(status: i32, document: Value) -> OutputStep {
        OutputStep { status: Some(status), document, ..OutputStep::default() }
    }

    /// What a machine prints on which everything is right.
    fn right(machine: &ZooMachine) -> ZooOutput {
        let host = json!({
            "name": format!("zoo-{}", machine.name),
            "kernel": RELEASE,
            "kernel_command_line": machine.performance_parameters(),
            "cpu": {
                "architecture": "x86_64", "logical": 2, "cores": 2, "sockets": 1, "dies": 1,
                "smt": false, "numa": {"0": [0, 1]}, "flags": ["tsc", "constant_tsc"],
            },
            "memory": {
                "total_bytes": 490_000_000, "page_bytes": 4096,
                "modules": [{"slot": "DIMM 0", "size_bytes": 536_870_912}],
            },
            "virtualization": "qemu",
            "emulation": "tcg",
            "cgroup": {"version": 2},
            "disks": [
                {
                    "name": "nvme0n1", "model": "QEMU NVMe Ctrl", "size_bytes": DISK_BYTES,
                    "rotational": false, "removable": false,
                    "logical_sector_bytes": 4096, "physical_sector_bytes": 4096,
                },
                {
                    "name": "vda", "model": null, "size_bytes": DISK_BYTES,
                    "rotational": null, "removable": false,
                    "logical_sector_bytes": 4096, "physical_sector_bytes": 4096,
                },
            ],
        });
        let clock = json!({"facts": {"source": "monotonic_raw"}});
        let read = |kind: &str| {
            let text = format!("/data/{kind}/file: 2 MiB on {kind}");
            step(0, json!({"records": [{"facts": [{"name": "file", "text": text}]}]}))
        };
        let mut output = ZooOutput { is_complete: true, ..ZooOutput::default() };
        for name in ["version", "write-xfs", "write-ext4", "fetch", "same", "serve"] {
            output.steps.insert(name.to_owned(), step(0, Value::Null));
        }
        output.steps.insert("read-xfs".to_owned(), read("xfs"));
        output.steps.insert("read-ext4".to_owned(), read("ext4"));
        output.steps.insert("doctor".to_owned(), step(4, json!({"host": host, "clock": clock})));
        output
    }

    fn wrong(machine: &ZooMachine, output: &ZooOutput) -> Vec<String> {
        let checks = compare(machine, RELEASE, output);
        let wrong = checks.into_iter().filter(|check| !check.is_right);
        wrong.map(|it| format!("{}: {}, not {}", it.fact, it.found, it.expected)).collect()
    }

    #[test]
    fn facts_as_given_are_right() {
        let machine = machine("nvme");
        assert_eq!(wrong(&machine, &right(&machine)), [""; 0]);
    }

    #[test]
    fn each_other_fact_is_wrong() {
        let machine = machine("nvme");
        for (path, value, expected) in [
            ("cpu/logical", json!(3), "cpu/logical: 3, not 2"),
            ("cpu/smt", Value::Null, "cpu/smt: unknown, not false"),
            ("cpu/numa", json!({"0": [0]}), "cpu/numa: {\"0\":[0]}, not {\"0\":[0,1]}"),
            ("memory/page_bytes", json!(16384), "memory/page_bytes: 16384, not 4096"),
            (
                "memory/total_bytes",
                json!(1),
                "memory/total_bytes: 1, not 403995361.28 to 536870912",
            ),
            ("emulation", Value::Null, "emulation: unknown, not \"tcg\""),
            ("kernel", json!("6.2"), "kernel: \"6.2\", not \"6.1.0-1-amd64\""),
            ("cgroup/version", json!(1), "cgroup/version: 1, not 2"),
            ("disks/1/rotational", json!(true), "disks/vda/rotational: true, not unknown"),
            ("disks/0/model", json!("x"), "disks/nvme0n1/model: \"x\", not \"QEMU NVMe Ctrl\""),
        ] {
            let mut output = right(&machine);
            let step = output.steps.get_mut("doctor").expect("the doctor");
            *step.document.pointer_mut(&format!("/host/{path}")).expect(path) = value;
            assert_eq!(wrong(&machine, &output), [format!("doctor/host/{expected}")]);
        }
    }

    #[test]
    fn disks_too_many_and_hidden_characters_are_wrong() {
        let machine = machine("nvme");
        let mut output = right(&machine);
        let step = output.steps.get_mut("doctor").expect("the doctor");
        let disks = step.document["host"]["disks"].as_array_mut().expect("disks");
        disks.push(json!({"name": "fd0", "model": "a\u{1b}b"}));
        assert_eq!(
            wrong(&machine, &output),
            [
                "disks: [\"nvme0n1\",\"vda\",\"fd0\"], not [\"nvme0n1\",\"vda\"]",
                "texts with control characters: [\"a\\u001bb\"], not []",
            ]
        );
    }

    #[test]
    fn statuses_panics_and_hangs_are_wrong() {
        let machine = machine("nvme");
        let mut output = right(&machine);
        let errors = "thread 'main' panicked at a.rs:1\nnote: a backtrace\n".to_owned();
        output.steps.insert("fetch".to_owned(), OutputStep { errors, ..step(101, Value::Null) });
        output.steps.remove("serve");
        output.is_complete = false;
        output.others = vec!["Kernel panic".to_owned(), String::new()];
        assert_eq!(
            wrong(&machine, &output),
            [
                "fetch status: 101: thread 'main' panicked at a.rs:1, not 0",
                "serve status: unknown, not 0",
                "end: false: Kernel panic, not true",
            ]
        );
    }

    #[test]
    fn without_proc_a_fact_may_be_unknown_but_not_wrong() {
        let machine = machine("no-proc");
        let mut output = right(&machine);
        let step = output.steps.get_mut("doctor").expect("the doctor");
        let host = &mut step.document["host"];
        (host["disks"], host["kernel_command_line"]) = (json!([]), Value::Null);
        (host["cpu"]["logical"], host["cpu"]["cores"]) = (json!(0), json!(7));
        assert_eq!(wrong(&machine, &output), ["doctor/host/cpu/cores: 7, not 2"]);
    }

    fn record(value: Value, verdict: Value) -> Value {
        json!({"metric": "cpu.call", "value": value, "verdict": verdict})
    }

    #[test]
    fn cases_without_a_mark_are_wrong() {
        let machine = ZooMachine { metrics: "cpu.call", ..machine("nvme") };
        let mut output = right(&machine);
        let verdict =
            |state: &str, cause: &str| json!({"state": state, "reasons": [{"cause": cause}]});
        let good = record(json!(1.5), verdict("noisy", "emulated"));
        output.steps.insert("run".to_owned(), step(0, json!({"records": [good]})));
        assert_eq!(wrong(&machine, &output), [""; 0]);
        for bad in [
            record(json!(1.5), verdict("valid", "")),
            record(Value::Null, verdict("failed", "emulated")),
        ] {
            output.steps.insert("run".to_owned(), step(0, json!({"records": [good.clone(), bad]})));
            assert_eq!(wrong(&machine, &output).len(), 1);
        }
        output.steps.insert("run".to_owned(), step(0, json!({"records": []})));
        assert_eq!(wrong(&machine, &output).len(), 1, "a run of nothing");
    }
}
