import { byteSymbol, fallbackPiece } from "./plain-encoder.js";
import { invalidTokenizer, quote, type TokenizerFile } from "./tokenizer-file.js";

/** The bytes of all tokens, one after the other: token i has `bytes[offsets[i] .. offsets[i + 1])`. */
export interface TokenBytes {
  /** UTF-8, where a token is text; a token may also be a part of a character. */
  bytes: Uint8Array;
  /** One more than there are tokens. */
  offsets: Uint32Array;
}

/**
 * What every token stands for. Concatenated over the tokens of a text they give its UTF-8 (after the tokenizer's
 * normalisation, with the space that it puts before the first word). Special tokens have no bytes; added tokens that are
 * not special have those of their content, and the token of unknown text those of its name.
 *
 * @internal
 */
export function tabulateTokenBytes(file: TokenizerFile): TokenBytes {
  const toBytes = pieceDecoder(file);
  const addedTokens = new Map(file.added.map((token) => [token.id, token]));
  const parts = file.pieces.map((piece, id) => {
    const added = addedTokens.get(id);
    if (added === undefined) return toBytes(piece);
    return Buffer.from(added.special ? "" : added.content);
  });
  const offsets = new Uint32Array(parts.length + 1);
  for (const [id, part] of parts.entries()) offsets[id + 1] = (offsets[id] as number) + part.length;
  return { bytes: new Uint8Array(Buffer.concat(parts)), offsets };
}

function pieceDecoder({ scheme, byteFallback }: TokenizerFile): (piece: string) => Buffer {
  if (scheme === "words") return (piece) => Buffer.from(` ${piece}`);
  if (scheme === "metaspace") {
    const bytes = new Map<string, number>();
    if (byteFallback) for (let byte = 0; byte < 256; byte++) bytes.set(fallbackPiece(byte), byte);
    return (piece) => {
      const byte = bytes.get(piece);
      return byte === undefined ? Buffer.from(piece.replaceAll("\u2581", " ")) : Buffer.of(byte);
    };
  }
  const bytes = new Map(Array.from({ length: 256 }, (_, byte) => [byteSymbol(byte), byte]));
  return (piece) =>
    Buffer.from(
      Array.from(piece, (symbol) => {
        const byte = bytes.get(symbol);
        if (byte === undefined)
          throw invalidTokenizer(`the token ${quote(piece)} holds a symbol that is no byte`);
        return byte;
      }),
    );
}
