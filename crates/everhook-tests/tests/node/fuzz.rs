//! Every parser of outside input gets mutated samples: it may refuse them, and must not panic, hang or change its mind.
//!
//! The run here is short and has a fixed seed. `cargo xtask fuzz` searches the same parsers for longer, guided by
//! coverage. A failure names the parser, the seed and the input.

mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};

use self::targets::TARGETS;

const ROUNDS: usize = 2_000;

/// A small generator with a visible state (xorshift64*).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn mutate(&mut self, samples: &[&str]) -> Vec<u8> {
        const TOKENS: [&str; 16] = [
            "",
            "\0",
            "é",
            "\u{202e}",
            "-1",
            "99999999999999999999",
            "*",
            "..",
            "{",
            "[",
            "\"",
            "\\u0000",
            "/0",
            "'",
            "(",
            "T",
        ];
        let mut input = samples[self.below(samples.len())].as_bytes().to_vec();
        for _ in 0..=self.below(6) {
            let at = self.below(input.len() + 1);
            match self.below(6) {
                0 if at < input.len() => input[at] ^= 1 << self.below(8),
                1 if at < input.len() => drop(input.remove(at)),
                2 => input.insert(at, self.below(256) as u8),
                3 => drop(input.splice(at..at, TOKENS[self.below(TOKENS.len())].bytes())),
                4 => {
                    let piece = input[self.below(at + 1)..at].to_vec();
                    drop(input.splice(at..at, piece));
                }
                _ => input.truncate(self.below(input.len() + 1).max(input.len() / 2)),
            }
        }
        input
    }
}

fn run(rounds: usize, seed: u64) {
    for target in TARGETS {
        let mut chance = Chance(seed);
        for sample in target.samples {
            (target.run)(sample.as_bytes());
        }
        for round in 0..rounds {
            let input = chance.mutate(target.samples);
            let ended = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
            let shown = String::from_utf8_lossy(&input).into_owned();
            assert!(ended.is_ok(), "{} failed in round {round} of seed {seed}: {shown:?}", target.name);
        }
    }
}

#[test]
fn no_parser_panics_on_mutated_input() {
    run(ROUNDS, 0x9e37_79b9_7f4a_7c15);
}
