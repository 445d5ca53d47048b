// Generics, closures, iterators, traits and a panic path.
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;

mod text {
    pub trait Score {
        fn score(&self) -> u64;
    }
    impl Score for str {
        fn score(&self) -> u64 {
            self.bytes().map(u64::from).filter(|b| b % 2 == 0).sum()
        }
    }
    impl<T: Score + ?Sized> Score for Box<T> {
        fn score(&self) -> u64 {
            (**self).score() + 1
        }
    }
    #[inline(always)]
    pub fn split(line: &str) -> impl Iterator<Item = &str> {
        line.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty())
    }
}

use text::Score;

fn count<'a>(lines: impl Iterator<Item = &'a str>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for line in lines {
        for word in text::split(line) {
            *counts.entry(word.to_lowercase()).or_insert(0) += 1;
        }
    }
    counts
}

#[inline(never)]
fn show<K: Display + Ord, V: Display>(table: &BTreeMap<K, V>) -> String {
    let rows: Vec<String> = table.iter().map(|(k, v)| format!("{k}={v}")).collect();
    rows.join(",")
}

fn main() {
    let text = std::env::args().nth(1).unwrap_or_else(|| "the quick brown fox\njumps over the lazy dog".repeat(50));
    let counts = count(text.lines());
    let mut scored: Vec<(u64, String)> = counts.keys().map(|w| (w.as_str().score() + Box::<str>::from(w.as_str()).score(), w.clone())).collect();
    scored.sort_by(|a, b| b.cmp(a));
    let table: BTreeMap<String, usize> = counts.into_iter().collect();
    println!("{} {}", show(&table), scored[0].1);
}
