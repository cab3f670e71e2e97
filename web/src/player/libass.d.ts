declare module "@jellyfin/libass-wasm" {
  interface Options {
    video: HTMLVideoElement;
    subContent: string;
    fonts: readonly string[];
    workerUrl: string;
    legacyWorkerUrl: string;
    fallbackFont: string;
    timeOffset: number;
    libassMemoryLimit: number;
    maxRenderHeight: number;
    onError: (error: unknown) => void;
  }
  export default class SubtitlesOctopus {
    constructor(options: Options);
    timeOffset: number;
    dispose(): void;
  }
}
