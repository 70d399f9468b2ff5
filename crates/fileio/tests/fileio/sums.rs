//! The checksums against an independent implementation, for any split of the data.

use fathom_fileio::sum::{SumKernel, XorSum};
use serde::Deserialize;

#[derive(Deserialize)]
struct SumVectors {
    texts: Vec<Text>,
    cases: Vec<SumCase>,
}

#[derive(Deserialize)]
struct Text {
    hex: String,
    xor: String,
    position: String,
}

#[derive(Deserialize)]
struct SumCase {
    seed: u64,
    length: usize,
    xor: String,
    position: String,
}

/// A linear congruential generator, as in vectors.py: the highest byte of each number is data.
struct SumNumbers(u64);

impl SumNumbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }
}

fn data(seed: u64, length: usize) -> Vec<u8> {
    let mut numbers = SumNumbers(seed);
    (0..length).map(|_| (numbers.next() >> 56) as u8).collect()
}

fn check(vectors: &SumVectors) -> usize {
    let bytes = |hex: &str| -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2);
        pairs.map(|p| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap()).collect()
    };
    let texts = vectors.texts.iter().map(|it| (bytes(&it.hex), &it.xor, &it.position));
    let cases = vectors.cases.iter();
    let cases = cases.map(|it| (data(it.seed, it.length), &it.xor, &it.position));
    let mut count = 0;
    for (bytes, xor, position) in texts.chain(cases) {
        for kernel in SumKernel::available() {
            let mut sum = XorSum::default();
            sum.add_by(kernel, 0, &bytes);
            assert_eq!(sum.to_string(), format!("{xor} {position}"), "{kernel:?} {bytes:02x?}");
            assert_eq!(sum.bytes, bytes.len() as u64);
        }
        count += 1;
    }
    count
}

#[test]
fn stored_python_vectors_match() {
    let vectors: SumVectors = serde_json::from_str(include_str!("../vectors.json")).unwrap();
    assert!(check(&vectors) > 80);
}

#[test]
fn any_split_and_order_gives_the_same_sum() {
    let mut numbers = SumNumbers(1);
    for round in 0..400 {
        let bytes = data(round, numbers.below(5000));
        let whole = XorSum::over(&bytes);
        let mut cuts: Vec<usize> =
            (0..numbers.below(9)).map(|_| numbers.below(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut parts: Vec<XorSum> = Vec::new();
        for pair in cuts.windows(2) {
            let mut part = XorSum::default();
            part.add(pair[0] as u64, &bytes[pair[0]..pair[1]]);
            parts.push(part);
        }
        let mut sum = XorSum::default();
        while !parts.is_empty() {
            sum.merge(&parts.swap_remove(numbers.below(parts.len())));
        }
        assert_eq!(sum, whole, "{cuts:?}");
    }
}

#[test]
fn all_block_sizes_and_kernels_agree() {
    let bytes = data(7, 100_003);
    let whole = XorSum::over(&bytes);
    for kernel in SumKernel::available() {
        for block in [1, 2, 3, 5, 7, 63, 64, 65, 1000, 4096, 4097, 65536, 100_003] {
            let mut sum = XorSum::default();
            for (number, part) in bytes.chunks(block).enumerate() {
                sum.add_by(kernel, (number * block) as u64, part);
            }
            assert_eq!(sum, whole, "{kernel:?}, blocks of {block}");
        }
    }
}

#[test]
fn large_offsets_wrap_modulo_2_64() {
    let at = 1_u64 << 62;
    let mut sum = XorSum::default();
    sum.add(at, &data(3, 200));
    let expected: u64 = data(3, 200).chunks(4).zip(at / 4..).fold(0, |sum, (word, index)| {
        let word = u32::from_le_bytes(word.try_into().unwrap());
        sum.wrapping_add((index + 1).wrapping_mul(u64::from(word)))
    });
    assert_eq!(sum.position, expected);
}
