//! With an unusable store every measuring command measures and prints, and warns once.

use std::path::Path;

use rustix::process::Resource;

use crate::limits::{at_most, under};
use crate::test_env::{
    ProgramTestEnv, assert_contains, assert_message, assert_status, path_text, text,
};

/// That a file is read nevertheless is a golden case.
#[test]
fn run_without_a_usable_store_is_printed() {
    let env = ProgramTestEnv::new();
    std::fs::write(env.file("file"), "text").expect("a file");
    let store = env.file("file/x.db");
    for (variable, place, status) in [("FATHOM_STORE", &store, 1), ("XDG_DATA_HOME", &store, 0)] {
        let mut run = env.command("run --quick --only cpu.frequency");
        let output = run.env_remove("FATHOM_STORE").env(variable, place).output().expect("a run");
        assert_status(&output, status);
        assert_contains(&text(&output.stdout), &["cpu.frequency"]);
        let message = text(&output.stderr);
        assert_eq!(message.matches("this run is not stored: ").count(), 1, "{message}");
        assert_contains(&message, &["not a directory", "FATHOM_STORE"]);
    }
}

#[test]
fn file_size_limit_of_a_store_is_named() {
    let env = ProgramTestEnv::new();
    drop(fathom_store::Store::open(&env.store()).expect("a store"));
    std::fs::write(env.file("data"), vec![1; 1 << 20]).expect("a file");
    for limit in [0, 1024] {
        let output =
            under(env.command("file read data --block 64K"), at_most(Resource::Fsize, limit));
        assert_message(&output, 1, &["not stored", "File too large", "ulimit -f"]);
    }
}

#[test]
fn only_default_folder_is_created() {
    let env = ProgramTestEnv::new();
    let data = env.file("share/data");
    std::fs::write(env.file("data"), vec![1; 1 << 20]).expect("a file");
    let with_default = |line: &str| {
        let mut command = env.command(line);
        command.env_remove("FATHOM_STORE").env("XDG_DATA_HOME", &data);
        command.output().expect("the program starts")
    };
    assert_status(&with_default("file read data --block 64K"), 0);
    let store = data.join("fathom/fathom.db");
    assert!(store.is_file());
    assert_status(&with_default("show"), 0);
    std::fs::remove_dir_all(&data).expect("a folder");
    // Also if it is named.
    let named = format!("file read data --block 64K --store {}", path_text(&store));
    assert_status(&with_default(&named), 0);
    let elsewhere = env.path_text("elsewhere/fathom.db");
    let doctor = text(&env.exec(&format!("doctor --json --store {elsewhere}")).stdout);
    assert_contains(&doctor, &["elsewhere does not exist", "keep_elsewhere"]);
    assert!(!Path::new(&env.path_text("elsewhere")).exists());
}
