// Reading model.safetensors: eight bytes with the length of a header in JSON, the header, then the numbers.

// Every float16, as a number.
const HALVES = Float32Array.from({ length: 65536 }, (_, bits) => {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
});

function widened(halves) {
  const values = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) values[i] = HALVES[halves[i]];
  return values;
}

// {tensors: name -> Float32Array with `shape`, config: the model's}.
export function readWeights(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const { __metadata__: metadata, ...entries } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: [start, end] }] of Object.entries(entries)) {
    const bytes = buffer.slice(8 + length + start, 8 + length + end); // a copy begins at a multiple of four bytes
    tensors[name] = dtype === "F16" ? widened(new Uint16Array(bytes)) : new Float32Array(bytes);
    tensors[name].shape = shape;
  }
  for (const [name, other] of Object.entries(JSON.parse(metadata.shared ?? "{}"))) tensors[name] = tensors[other];
  return { tensors, config: JSON.parse(metadata.config).model };
}
