/** Playing: one step after the other, each when the one before is on screen. */

const FRAME = 650; // milliseconds of a step

export class Player {
  /**
   * @param {{atEnd: function(): boolean, first: function(): Promise, next: function(): Promise}} steps
   * @param {function(): void} stopped is called at the end
   */
  constructor(steps, stopped) {
    Object.assign(this, { steps, stopped, timer: null });
  }

  /** @returns {boolean} whether it plays */
  get on() {
    return this.timer !== null;
  }

  /** Play from where one is, from the beginning if that is the end; or stop. */
  toggle() {
    if (this.on) this.#stop();
    else this.timer = setTimeout(() => this.#show(this.steps.atEnd() ? this.steps.first : this.steps.next));
  }

  async #show(step) {
    await step();
    if (!this.on) return; // stopped meanwhile
    if (this.steps.atEnd()) this.#stop();
    else this.timer = setTimeout(() => this.#show(this.steps.next), FRAME);
  }

  #stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.stopped();
  }
}
