//! The generated data: independent of how it is split, and incompressible.

use std::collections::HashSet;

use fathom_fileio::FileGenerator;

fn made(seed: u64, at: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    FileGenerator::new(seed).fill(at, &mut bytes);
    bytes
}

#[test]
fn parts_match_the_whole() {
    let whole = made(1, 0, 10_000);
    for at in (0..200).chain([1000, 4095, 4096, 9000]) {
        for length in (0..140).chain([511, 512, 777, 1000]) {
            let part = made(1, at as u64, length);
            assert!(part == whole[at..at + length], "{length} bytes at {at}");
        }
    }
}

/// By an independent implementation: data of a seed stays the same from version to version.
#[test]
fn data_of_a_seed_is_fixed() {
    let pair = |index: u64| u64::from_le_bytes(made(1, 8 * index, 8).try_into().expect("a pair"));
    let expected = [
        0xe68e_15b7_5233_cd9a,
        0xdfbb_bf9b_894e_6050,
        0x55ca_af63_ed59_1ff9,
        0x310b_4473_8ee1_80d0,
    ];
    assert_eq!([0, 1, 8, 1_000].map(pair), expected);
}

#[test]
fn offsets_and_seeds_do_not_repeat_data() {
    let mut seen = HashSet::new();
    for seed in 0..16 {
        for at in [0, 1 << 20, 1 << 32, 1 << 35, 1 << 40, 1 << 62] {
            for pair in made(seed, at, 8192).chunks(8) {
                assert!(seen.insert(pair.to_vec()), "seed {seed}, offset {at}");
            }
        }
    }
}

#[test]
fn bytes_and_bits_are_uniform() {
    for seed in [0, 1, u64::MAX] {
        let bytes = made(seed, 0, 4 << 20);
        let mut counts = [0_f64; 256];
        let mut bits = [0_f64; 64];
        for pair in bytes.chunks_exact(8) {
            pair.iter().for_each(|byte| counts[usize::from(*byte)] += 1.0);
            let pair = u64::from_le_bytes(pair.try_into().unwrap());
            for (bit, count) in bits.iter_mut().enumerate() {
                *count += (pair >> bit & 1) as f64;
            }
        }
        let expected = bytes.len() as f64 / 256.0;
        let chi: f64 = counts.iter().map(|c| (c - expected).powi(2) / expected).sum();
        // 255 degrees of freedom: P(outside) is about 1e-8.
        assert!((150.0..400.0).contains(&chi), "seed {seed}: {chi}");
        let pairs = bytes.len() as f64 / 8.0;
        for (bit, count) in bits.iter().enumerate() {
            let sigma = (count - pairs / 2.0) / (pairs / 4.0).sqrt();
            assert!(sigma.abs() < 6.0, "seed {seed}, bit {bit}: {sigma}");
        }
    }
}
