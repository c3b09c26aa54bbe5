// Reading model.safetensors: eight bytes with the length of a header in JSON, the header, then the numbers.

// {tensors: name -> Float32Array with `shape`, config: the model's}.
export function readWeights(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const { __metadata__: metadata, ...entries } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: [start, end] }] of Object.entries(entries)) {
    const bytes = buffer.slice(8 + length + start, 8 + length + end); // a copy begins at a multiple of four bytes
    tensors[name] = dtype === "I8" ? Float32Array.from(new Int8Array(bytes)) : new Float32Array(bytes);
    tensors[name].shape = shape;
  }
  for (const [name, { dtype, shape: [, columns] }] of Object.entries(entries))
    if (dtype === "I8") { // whole numbers and a factor a row
      const numbers = tensors[name], scale = tensors[`${name}.scale`];
      for (let i = 0; i < numbers.length; i++) numbers[i] *= scale[Math.floor(i / columns)];
    }
  for (const [name, other] of Object.entries(JSON.parse(metadata.shared ?? "{}"))) tensors[name] = tensors[other];
  return { tensors, config: JSON.parse(metadata.config).model };
}
