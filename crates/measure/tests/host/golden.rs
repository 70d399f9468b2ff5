//! All facts of the synthetic machines, and the condition of two, one file each in `machines/`.
//! What to look at:
//! - CPUs that are not online are not allowed; `no_turbo = 0` allows boost.
//! - A cache without a size is omitted, and so are disks of no device and hidden ones.
//! - The board writes −1 as its socket; no file says whether it is virtual.
//! - The lowest limit up to the root of the control groups applies.
//! - The quieter CPU is chosen; the processes and limits of the laptop are those of its user.

use std::path::Path;

use snapbox::data::DataFormat;
use snapbox::{Assert, Data};

use crate::{condition, fixture};

fn assert_golden(name: &str, value: &impl serde::Serialize) {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/machines"));
    let text = serde_json::to_string_pretty(value).unwrap() + "\n";
    let golden = Data::read_from(&folder.join(name), Some(DataFormat::Text)).raw();
    Assert::new().action_env("SNAPSHOTS").eq(Data::text(text).raw(), golden);
}

#[test]
fn facts_of_every_machine_are_read() {
    for (name, machine) in fixture::all() {
        assert_golden(&format!("{name}.json"), &machine.read());
    }
}

#[test]
fn conditions_of_machines_are_read() {
    for (name, condition) in condition::all() {
        assert_golden(&format!("{name}-condition.json"), &condition);
    }
}
