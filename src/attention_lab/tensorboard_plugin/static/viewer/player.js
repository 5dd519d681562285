/** Play one step after another, each once the previous one is on screen. */

const FRAME = 650; // milliseconds per step

export class Player {
  /**
   * @param {{atEnd: function(): boolean, first: function(): Promise, next: function(): Promise}} steps
   * @param {function(): void} stopped called when playing ends
   */
  constructor(steps, stopped) {
    Object.assign(this, { steps, stopped, timer: null });
  }

  /** @returns {boolean} whether it is playing */
  get on() {
    return this.timer !== null;
  }

  /** Stop if it is playing; otherwise play from the current step, or from the first if the current one is the last. */
  toggle() {
    if (this.on) this.#stop();
    else this.timer = setTimeout(() => this.#show(this.steps.atEnd() ? this.steps.first : this.steps.next));
  }

  async #show(step) {
    await step();
    if (!this.on) return; // stopped in the meantime
    if (this.steps.atEnd()) this.#stop();
    else this.timer = setTimeout(() => this.#show(this.steps.next), FRAME);
  }

  #stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.stopped();
  }
}
