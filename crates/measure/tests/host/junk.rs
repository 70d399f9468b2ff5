//! Damaged files make facts absent, without a panic.

use fathom_measure::host::HostReader;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use crate::fixture::{self, HostMachine};
use crate::origins;

/// Damaged copies of each machine.
const COPIES: u64 = 6;

fn below(random: &mut Xoshiro256PlusPlus, end: usize) -> usize {
    (random.next_u64() % end as u64) as usize
}

/// Replaces digits by a number that overflows.
fn inflate(content: &[u8]) -> Vec<u8> {
    let digits = |byte: &u8| match byte {
        b'0'..=b'9' => b"99999999999999999999".to_vec(),
        other => vec![*other],
    };
    content.iter().flat_map(digits).collect()
}

/// Replaces numbers.
fn replace_numbers(content: &[u8], by: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(content);
    let mut out = String::new();
    let mut within = false;
    for c in text.chars() {
        match (c.is_ascii_digit(), within) {
            (true, false) => out.push_str(by),
            (true, true) => {}
            (false, _) => out.push(c),
        }
        within = c.is_ascii_digit();
    }
    out.into_bytes()
}

fn damage(content: &[u8], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    match below(random, 10) {
        0 => content[..below(random, content.len() + 1)].to_vec(),
        1 => {
            let mut noise = vec![0; below(random, 300)];
            random.fill_bytes(&mut noise);
            noise
        }
        2 => inflate(content),
        3 => replace_numbers(content, "-1"),
        4 => replace_numbers(content, "18446744073709551615"),
        5 => replace_numbers(content, "4294967295"),
        6 => replace_numbers(content, "1e308"),
        7 => Vec::new(),
        8 => {
            let mut flipped = content.to_vec();
            if !flipped.is_empty() {
                let at = below(random, flipped.len());
                flipped[at] ^= 1 << below(random, 8);
            }
            flipped
        }
        _ => content.to_vec(),
    }
}

#[test]
fn damaged_files_give_no_facts() {
    for (name, machine) in fixture::all() {
        for seed in 0..COPIES {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut copy = HostMachine::default();
            for (path, content) in &machine.files {
                copy = copy.with_file(path, damage(content, &mut random));
            }
            origins::check(&format!("{name}, seed {seed}"), &copy.read());
        }
    }
}

#[test]
fn directories_instead_of_files_are_ignored() {
    for (name, machine) in fixture::all() {
        let dir = fixture::empty_folder();
        for (path, _) in &machine.files {
            std::fs::create_dir_all(dir.path().join(path.trim_start_matches('/'))).unwrap();
        }
        origins::check(name, &HostReader::at(dir.path()).read());
    }
}

#[test]
fn implausible_numbers_are_absent() {
    let absurd = crate::laptop::machine().with(
        "/sys/devices/system/cpu/online = 0-4294967295
        /sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq = 4000000000
        /proc/uptime = nan inf
        /sys/block/nvme0n1/size = 18446744073709551615",
    );
    let host = absurd.read();
    assert_eq!(host.cpu.logical, 6, "from /proc/cpuinfo");
    assert_eq!((host.cpu.boost_hz, host.uptime_s), (None, None));
    assert_eq!(host.disks, []);
}
