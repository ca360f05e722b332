// The expert of this tile, by halving: the first whose tiles end behind it.
uint expert = 0;
for (uint above = num_experts - 1; expert < above;) {
  const uint middle = (expert + above) / 2;
  if (uint(tile_ends[middle]) > tile) {
    above = middle;
  } else {
    expert = middle + 1;
  }
}
const uint first_pair = (tile - (expert ? uint(tile_ends[expert - 1]) : 0)) * 32;  // of the expert's
const uint count = counts[expert], start = starts[expert];
