//! A thousand texts, the same in every run: many scripts, emoji, empty and very long texts, and unassigned characters.

/// A splitmix64 sequence.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// First and last character of blocks in common use, and of some that are not.
const BLOCKS: [(u32, u32); 34] = [
    (0x20, 0x7e),
    (0xa0, 0xff),
    (0x100, 0x17f),
    (0x1e00, 0x1eff),
    (0x370, 0x3ff),
    (0x400, 0x4ff),
    (0x530, 0x58f),
    (0x590, 0x5ff),
    (0x600, 0x6ff),
    (0x700, 0x74f),
    (0x900, 0x97f),
    (0x980, 0x9ff),
    (0xa00, 0xa7f),
    (0xb80, 0xbff),
    (0xc00, 0xc7f),
    (0xe00, 0xe7f),
    (0xe80, 0xeff),
    (0xf00, 0xfff),
    (0x1000, 0x109f),
    (0x10a0, 0x10ff),
    (0x1200, 0x137f),
    (0x13a0, 0x13ff),
    (0x1780, 0x17ff),
    (0x1800, 0x18af),
    (0x3040, 0x30ff),
    (0x4e00, 0x9fff),
    (0xac00, 0xd7a3),
    (0x300, 0x36f),
    (0x2000, 0x206f),
    (0x2190, 0x22ff),
    (0x1f300, 0x1f6ff),
    (0x1f900, 0x1faff),
    (0x20000, 0x2a6df),
    (0xe0000, 0xe007f),
];

const WORDS: &str = "a the enclave reads text only after a page has proved which code will read it and \
    whoever relays bytes learns nothing of them naïve café coöperate résumé Straße 2024 3.14159 e-mail \
    https://example.org/path?x=1 don't O'Neill C++ #tag @name 50% $12.50 patient hypertension Kubernetes \
    antidisestablishmentarianism x86_64 [MASK] [CLS] ##ing hello-world semi;colon (parentheses) \"quoted\"";

const SPECIAL: [&str; 14] = [
    "",
    " ",
    "\t\n\r",
    "a",
    "?",
    "é",
    "人",
    "\u{1f600}",
    "\u{0}\u{7}\u{1b}\u{200b}\u{feff}",
    // The result of decoding a lone surrogate leniently.
    "\u{fffd}\u{fffd}",
    "\u{10ffff}\u{e000}",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466} \u{1f1e9}\u{1f1ea} \u{1f44d}\u{1f3fd}",
    "e\u{301}\u{323}\u{301}\u{323} \u{1100}\u{1161}\u{11a8}",
    "[CLS] [SEP] [PAD] [UNK] [MASK]",
];

/// The first `count` texts; any hundred of them include some of each kind.
pub(crate) fn texts(count: usize) -> Vec<String> {
    let mut numbers = Numbers(2026);
    (0..count)
        .map(|number| match number % 8 {
            0 => SPECIAL[number / 8 % SPECIAL.len()].to_owned(),
            // One block after the other, in words of a few characters.
            1 | 2 => {
                let block = BLOCKS[(number / 8 * 2 + number % 8) % BLOCKS.len()];
                let words = 1 + numbers.below(12);
                script(&mut numbers, block, words)
            }
            3 => (0..1 + numbers.below(6))
                .map(|_| {
                    let block = BLOCKS[numbers.below(BLOCKS.len())];
                    script(&mut numbers, block, 2)
                })
                .collect::<Vec<_>>()
                .join(" "),
            4 | 5 => prose(&mut numbers, 40),
            6 => (0..numbers.below(30))
                .filter_map(|_| char::from_u32((numbers.next() % 0x11_0000) as u32))
                .collect(),
            // Lengths around and beyond the maximum that is kept.
            _ => {
                let words = 100 + numbers.below(300);
                let words = if number % 32 == 7 { words } else { words / 10 };
                (0..words).map(|_| word(&mut numbers) + " ").collect()
            }
        })
        .collect()
}

fn script(numbers: &mut Numbers, (first, last): (u32, u32), words: usize) -> String {
    let words: Vec<String> = (0..words)
        .map(|_| {
            (0..1 + numbers.below(8))
                .filter_map(|_| {
                    let offset = numbers.below((last - first + 1) as usize);
                    char::from_u32(first + u32::try_from(offset).unwrap_or(0))
                })
                .collect()
        })
        .collect();
    words.join(" ")
}

fn prose(numbers: &mut Numbers, most: usize) -> String {
    let words: Vec<String> = (0..1 + numbers.below(most))
        .map(|_| word(numbers))
        .collect();
    words.join(" ")
}

fn word(numbers: &mut Numbers) -> String {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    words[numbers.below(words.len())].to_owned()
}
